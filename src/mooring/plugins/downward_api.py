"""downwardAPI: facts about the pod and its containers as files."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence

from mooring.errors import Refused
from mooring.host.atomic_writer import PayloadFile
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import DownwardAPIVolumeFile, DownwardAPIVolumeSource, Volume
from mooring.plugins.content import ContentMounter, default_mode
from mooring.plugins.field_values import field_value, resource_value
from mooring.plugins.interface import Attributes, NodeFacts, ObjectRef, Offer, PluginContext, Setup, refuse_block
from mooring.plugins.payload import Content, Payload
from mooring.world.names import PluginName
from mooring.world.spec import VolumeSpec

NAME = PluginName("kubernetes.io/downward-api")


class DownwardAPIPlugin:
    """The downwardAPI volume type."""

    name = NAME

    def __init__(self, context: PluginContext) -> None:
        self._node = context.node
        mounter = ContentMounter(context, NAME, self._collect, memory=True)
        attributes = Attributes(read_only=True, managed=True, relabel=True)
        self._offer = Offer(mounter=mounter, checker=mounter, attributes=attributes, refreshes=True)

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.volume is not None and spec.volume.downward_api is not None

    def volume_name(self, spec: VolumeSpec) -> str:
        return spec.name

    def offer(self, spec: VolumeSpec) -> Offer:
        return self._offer

    def references(self, spec: VolumeSpec, pod: Pod) -> tuple[ObjectRef, ...]:
        return ()  # the pod itself, which renews the wish when it changes

    def reconstruct(self, volume_name: str, *, block: bool = False) -> VolumeSpec:
        if block:
            raise refuse_block(volume_name)
        return VolumeSpec(volume=Volume(name=volume_name, downward_api=DownwardAPIVolumeSource()))

    def _collect(self, request: Setup) -> Content:
        assert request.spec.volume is not None
        source = request.spec.volume.downward_api
        assert source is not None
        payload, problems = downward_files(
            request.pod, source.items, self._node, mode=default_mode(source.default_mode), user=source.default_user
        )
        if problems:
            raise Refused(f"cannot set up volume {request.spec.name!r}", why="; ".join(problems))
        return Content(files=payload)


def downward_files(
    pod: Pod, items: Sequence[DownwardAPIVolumeFile], node: Callable[[], NodeFacts], *, mode: int, user: int | None
) -> tuple[Payload, list[str]]:
    """The files of all items, and what is wrong with those that cannot be made; all are tried."""
    payload: dict[str, PayloadFile] = {}
    problems: list[str] = []
    for item in items:
        try:
            text = _value(pod, item, node)
        except ValueError as error:
            problems.append(str(error))
            continue
        payload[posixpath.normpath(item.path)] = PayloadFile(
            data=text.encode(),
            mode=item.mode if item.mode is not None else mode,
            uid=item.user if item.user is not None else user,
        )
    return payload, problems


def _value(pod: Pod, item: DownwardAPIVolumeFile, node: Callable[[], NodeFacts]) -> str:
    if item.field_ref is not None:
        return field_value(pod, item.field_ref.field_path)
    if item.resource_field_ref is not None:
        return resource_value(pod, item.resource_field_ref, node())
    raise ValueError(f"the file {item.path!r} names neither fieldRef nor resourceFieldRef")
