"""configMap: the keys of a ConfigMap as files."""

from __future__ import annotations

from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import ConfigMapVolumeSource, Volume
from mooring.plugins.content import ContentMounter, default_mode
from mooring.plugins.interface import Attributes, ObjectRef, Offer, PluginContext, Setup, refuse_block
from mooring.plugins.payload import Content, config_map_data, files_of
from mooring.world.names import PluginName
from mooring.world.spec import VolumeSpec

NAME = PluginName("kubernetes.io/configmap")


class ConfigMapPlugin:
    """The configMap volume type."""

    name = NAME

    def __init__(self, context: PluginContext) -> None:
        self._objects = context.objects
        mounter = ContentMounter(context, NAME, self._collect, memory=False)
        attributes = Attributes(read_only=True, managed=True, relabel=True)
        self._offer = Offer(mounter=mounter, checker=mounter, attributes=attributes, refreshes=True)

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.volume is not None and spec.volume.config_map is not None

    def volume_name(self, spec: VolumeSpec) -> str:
        return f"{spec.name}/{_source(spec).name}"

    def offer(self, spec: VolumeSpec) -> Offer:
        return self._offer

    def references(self, spec: VolumeSpec, pod: Pod) -> tuple[ObjectRef, ...]:
        return (ObjectRef("ConfigMap", pod.metadata.namespace, _source(spec).name),)

    def reconstruct(self, volume_name: str, *, block: bool = False) -> VolumeSpec:
        if block:
            raise refuse_block(volume_name)
        return VolumeSpec(volume=Volume(name=volume_name, config_map=ConfigMapVolumeSource(name=volume_name)))

    def _collect(self, request: Setup) -> Content:
        source = _source(request.spec)
        namespace = request.pod.metadata.namespace
        files = files_of(
            "ConfigMap",
            source.name,
            config_map_data(self._objects, namespace, source.name, optional=source.optional),
            source.items,
            mode=default_mode(source.default_mode),
            user=source.default_user,
            optional=source.optional,
        )
        return Content(files=files)


def _source(spec: VolumeSpec) -> ConfigMapVolumeSource:
    assert spec.volume is not None
    assert spec.volume.config_map is not None
    return spec.volume.config_map
