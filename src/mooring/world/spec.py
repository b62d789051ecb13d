"""A volume specification: what a pod's volume really is, once claims have been looked up."""

from __future__ import annotations

import msgspec

from mooring.kube.objects.storage import PersistentVolume
from mooring.kube.objects.volumes import Volume

GID_ANNOTATION = "pv.beta.kubernetes.io/gid"
MOUNT_OPTIONS_ANNOTATION = "volume.beta.kubernetes.io/mount-options"
_FOR_MANY_NODES = frozenset(("ReadWriteMany", "ReadOnlyMany"))


class VolumeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A volume written in the pod itself, or a PersistentVolume. Exactly one of the two is set."""

    volume: Volume | None = None
    persistent_volume: PersistentVolume | None = None
    read_only: bool = False
    namespace: str = ""  # of the pod that wants it; nothing for what was found on disk
    migrated: bool = False  # it was written as a type that Kubernetes has moved to CSI
    written_in_pod: bool = False  # the PersistentVolume stands for a volume of the pod, and is no object of its own

    @property
    def name(self) -> str:
        """The inner name: of the PersistentVolume, or of the volume in the pod."""
        if self.persistent_volume is not None:
            return self.persistent_volume.metadata.name
        assert self.volume is not None
        return self.volume.name

    @property
    def source_names(self) -> list[str]:
        """The manifest names of its sources: one in a valid volume."""
        if self.persistent_volume is not None:
            return self.persistent_volume.spec.source_names
        assert self.volume is not None
        return self.volume.source_names

    @property
    def csi_driver(self) -> str:
        """The CSI driver that serves it, or nothing."""
        holder = self.persistent_volume.spec if self.persistent_volume is not None else self.volume
        return holder.csi.driver if holder is not None and holder.csi is not None else ""

    @property
    def flex_driver(self) -> str:
        """The FlexVolume driver that serves it, or nothing."""
        holder = self.persistent_volume.spec if self.persistent_volume is not None else self.volume
        return holder.flex_volume.driver if holder is not None and holder.flex_volume is not None else ""

    @property
    def is_block(self) -> bool:
        """Whether containers get a raw device instead of a directory."""
        return self.persistent_volume is not None and self.persistent_volume.spec.volume_mode == "Block"

    @property
    def is_exclusive(self) -> bool:
        """Whether only one pod on the node may use it (its only access mode is ReadWriteOncePod)."""
        volume = self.persistent_volume
        return volume is not None and tuple(volume.spec.access_modes) == ("ReadWriteOncePod",)

    @property
    def is_for_one_node(self) -> bool:
        """Whether only one node may have it at a time, as its access modes say; without any nobody knows."""
        modes = self.persistent_volume.spec.access_modes if self.persistent_volume is not None else ()
        return bool(modes) and not _FOR_MANY_NODES & set(modes)

    @property
    def claim(self) -> str:
        """The claim the PersistentVolume is bound to, as `namespace/name`, or nothing."""
        reference = self.persistent_volume.spec.claim_ref if self.persistent_volume is not None else None
        return f"{reference.namespace}/{reference.name}" if reference is not None else ""

    def is_volume(self, name: str) -> bool:
        """Whether this is the PersistentVolume of that name."""
        return self.persistent_volume is not None and self.persistent_volume.metadata.name == name

    @property
    def gid(self) -> str:
        """The group that the PersistentVolume's annotation asks for, or nothing."""
        volume = self.persistent_volume
        return volume.metadata.annotations.get(GID_ANNOTATION, "") if volume is not None else ""

    @property
    def mount_options(self) -> tuple[str, ...]:
        """Mount options of the PersistentVolume; its annotation wins over its spec."""
        volume = self.persistent_volume
        if volume is None:
            return ()
        annotated = volume.metadata.annotations.get(MOUNT_OPTIONS_ANNOTATION)
        if annotated is not None:
            return tuple(option for option in annotated.split(",") if option)
        return tuple(volume.spec.mount_options)
