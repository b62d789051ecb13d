"""secret: the keys of a Secret as files, in memory only."""

from __future__ import annotations

from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import SecretVolumeSource, Volume
from mooring.plugins.content import ContentMounter, default_mode
from mooring.plugins.interface import Attributes, ObjectRef, Offer, PluginContext, Setup, refuse_block
from mooring.plugins.payload import Content, files_of, secret_data
from mooring.world.names import PluginName
from mooring.world.spec import VolumeSpec

NAME = PluginName("kubernetes.io/secret")


class SecretPlugin:
    """The secret volume type."""

    name = NAME

    def __init__(self, context: PluginContext) -> None:
        self._objects = context.objects
        mounter = ContentMounter(context, NAME, self._collect, memory=True)
        attributes = Attributes(read_only=True, managed=True, relabel=True)
        self._offer = Offer(mounter=mounter, checker=mounter, attributes=attributes, refreshes=True)

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.volume is not None and spec.volume.secret is not None

    def volume_name(self, spec: VolumeSpec) -> str:
        return _source(spec).secret_name

    def offer(self, spec: VolumeSpec) -> Offer:
        return self._offer

    def references(self, spec: VolumeSpec, pod: Pod) -> tuple[ObjectRef, ...]:
        return (ObjectRef("Secret", pod.metadata.namespace, _source(spec).secret_name),)

    def reconstruct(self, volume_name: str, *, block: bool = False) -> VolumeSpec:
        if block:
            raise refuse_block(volume_name)
        return VolumeSpec(volume=Volume(name=volume_name, secret=SecretVolumeSource(secret_name=volume_name)))

    def _collect(self, request: Setup) -> Content:
        source = _source(request.spec)
        namespace = request.pod.metadata.namespace
        files = files_of(
            "Secret",
            source.secret_name,
            secret_data(self._objects, namespace, source.secret_name, optional=source.optional),
            source.items,
            mode=default_mode(source.default_mode),
            user=source.default_user,
            optional=source.optional,
        )
        return Content(files=files)


def _source(spec: VolumeSpec) -> SecretVolumeSource:
    assert spec.volume is not None
    assert spec.volume.secret is not None
    return spec.volume.secret
