"""image: an image as a volume. The container runtime pulls and mounts it; here it is only passed on."""

from __future__ import annotations

from mooring.errors import Refused
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import ImageVolumeSource, Volume
from mooring.plugins.interface import Attributes, ObjectRef, Offer, PluginContext, Setup, refuse_block
from mooring.world.names import PluginName, PodUid
from mooring.world.spec import VolumeSpec

NAME = PluginName("kubernetes.io/image")


class ImagePlugin:
    """The image volume type: always ready, nowhere on this machine, and read-only."""

    name = NAME

    def __init__(self, context: PluginContext) -> None:
        mounter = ImageMounter()
        self._offer = Offer(mounter=mounter, checker=mounter, attributes=Attributes(read_only=True))

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.volume is not None and spec.volume.image is not None

    def volume_name(self, spec: VolumeSpec) -> str:
        return _source(spec).reference

    def offer(self, spec: VolumeSpec) -> Offer:
        return self._offer

    def references(self, spec: VolumeSpec, pod: Pod) -> tuple[ObjectRef, ...]:
        return ()

    def reconstruct(self, volume_name: str, *, block: bool = False) -> VolumeSpec:
        """Of a name alone; an image volume leaves nothing on disk, so this only serves leftovers."""
        if block:
            raise refuse_block(volume_name)
        return VolumeSpec(volume=Volume(name=volume_name, image=ImageVolumeSource(reference=volume_name)))


class ImageMounter:
    def path(self, uid: PodUid, spec: VolumeSpec) -> str:
        return ""

    def check(self, request: Setup) -> None:
        if not _source(request.spec).reference:
            raise Refused(
                f"cannot set up volume {request.spec.name!r}",
                why="it names no image",
                next_step="Write image.reference, such as registry.example/tools:1",
            )

    async def set_up(self, request: Setup) -> None:
        self.check(request)

    async def tear_down(self, uid: PodUid, spec: VolumeSpec) -> None:
        return None


def _source(spec: VolumeSpec) -> ImageVolumeSource:
    assert spec.volume is not None
    assert spec.volume.image is not None
    return spec.volume.image
