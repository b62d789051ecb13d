"""kubernetes.io/csi: the volume type behind which all CSI drivers stand."""

from __future__ import annotations

from mooring.csi import vol_data
from mooring.csi.attacher import CSIAttacher
from mooring.csi.attachments import AttachmentOrders, name_of
from mooring.csi.block import CSIBlockMapper, CSIBlockStager
from mooring.csi.drivers import Drivers
from mooring.csi.expander import CSIExpander
from mooring.csi.inspector import CSIInspector
from mooring.csi.mounter import CSIMounter
from mooring.csi.names import NAME, Identity, inline_source, persistent_source, volume_name
from mooring.csi.stager import CSIStager
from mooring.csi.surroundings import CSIObjects, Surroundings
from mooring.errors import Refused
from mooring.kube.objects.kinds import CSI_DRIVER, VOLUME_ATTACHMENT
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import CSIVolumeSource, Volume
from mooring.plugins.interface import Attributes, ObjectRef, Offer, PluginContext
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec

DRIVER_KIND, ATTACHMENT_KIND = CSI_DRIVER.name, VOLUME_ATTACHMENT.name


class CSIPlugin:
    """Serves PersistentVolumes and inline volumes of the drivers that have registered.

    With `orders` this node lets volumes be attached itself; else it awaits that others do. Of a driver without a
    CSIDriver object it counts as known that it attaches, unless `asks_drivers` is set.
    """

    name = NAME

    def __init__(
        self,
        context: PluginContext,
        drivers: Drivers,
        objects: CSIObjects,
        *,
        orders: AttachmentOrders | None = None,
        asks_drivers: bool = False,
    ) -> None:
        self._around = Surroundings(context, drivers, objects, asks_drivers=asks_drivers)
        self._attacher = CSIAttacher(self._around, orders)
        self._expander = CSIExpander(self._around)
        self._inspector = CSIInspector(self._around)
        self._stager = CSIStager(self._around)
        self._mounter = CSIMounter(self._around)
        self._block_stager = CSIBlockStager(self._around)
        self._block_mapper = CSIBlockMapper(self._around)

    def supports(self, spec: VolumeSpec) -> bool:
        return bool(spec.csi_driver)

    def volume_name(self, spec: VolumeSpec) -> str:
        if inline_source(spec) is not None:
            return spec.name
        source = persistent_source(spec)
        return volume_name(Identity(driver=source.driver, handle=source.volume_handle))

    def offer(self, spec: VolumeSpec) -> Offer:
        """What is offered depends on the spec alone: a volume has one name, whether its driver runs or not."""
        inline = inline_source(spec)
        known = self._around.object(spec.csi_driver)
        needs_attaching = known is None or known.spec.attach_required
        read_only = inline.read_only if inline is not None else spec.read_only
        if spec.is_block:
            return Offer(
                mounter=self._block_mapper,
                stager=self._block_stager,
                attacher=self._attacher,
                expander=self._expander,
                inspector=self._inspector,
                attributes=Attributes(read_only=read_only),
                takes_mount_options=True,
                maps_devices=True,
                needs_attaching=needs_attaching,
            )
        return Offer(
            mounter=self._mounter,
            stager=self._stager if inline is None else None,
            attacher=self._attacher if inline is None else None,
            checker=self._mounter,
            inspector=self._inspector,
            expander=self._expander if inline is None and not spec.written_in_pod else None,
            needs_attaching=needs_attaching,
            attributes=Attributes(read_only=read_only, managed=not read_only, relabel=True),
            takes_mount_options=inline is None,
            takes_labels=known is not None and known.spec.se_linux_mount,
            refreshes=True,
        )

    def references(self, spec: VolumeSpec, pod: Pod) -> tuple[ObjectRef, ...]:
        """The driver's object, under whose name a driver that registers is told of as well, attachment and secrets."""
        refs = [ObjectRef(DRIVER_KIND, "", spec.csi_driver)]
        inline = inline_source(spec)
        if inline is not None:
            if inline.node_publish_secret_ref is not None:
                refs.append(ObjectRef("Secret", pod.metadata.namespace, inline.node_publish_secret_ref.name))
            return tuple(refs)
        refs.append(ObjectRef(ATTACHMENT_KIND, "", name_of(spec, self._around.node().name)))
        source = persistent_source(spec)
        for ref in (source.node_stage_secret_ref, source.node_publish_secret_ref, source.node_expand_secret_ref):
            if ref is not None:
                refs.append(ObjectRef("Secret", ref.namespace, ref.name))
        return tuple(dict.fromkeys(refs))

    def reconstruct(self, volume_name: str, *, block: bool = False) -> VolumeSpec:
        raise Refused(f"cannot make sense of volume {volume_name!r}", why="its name does not tell which driver has it")

    def reconstruct_for(self, uid: PodUid, volume_name: str, *, block: bool) -> VolumeSpec:
        """What the data file tells. An empty directory is one for which no driver was asked yet."""
        places = self._around.places
        unit = places.block_data(volume_name) if block else places.pod_unit(uid, volume_name)
        data = vol_data.read(self._around.host, unit)
        if data is not None:
            return vol_data.skeleton(data, volume_name, block=block)
        if block or self._around.host.names_in(unit):
            raise Refused(f"cannot make sense of volume {volume_name!r}", why=f"{unit} has no data file")
        return VolumeSpec(volume=Volume(name=volume_name, csi=CSIVolumeSource(driver="")))

    def label_of(self, uid: PodUid, volume_name: str) -> str:
        data = vol_data.read(self._around.host, self._around.places.pod_unit(uid, volume_name))
        return data.se_linux_mount_context if data is not None else ""
