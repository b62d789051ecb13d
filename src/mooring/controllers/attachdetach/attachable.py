"""What must be known of a volume and a node before a driver is asked to attach the one to the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mooring.kube.api import NotFound, Reader
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.listener import Handler
from mooring.kube.objects.kinds import CSI_NODE, PERSISTENT_VOLUME
from mooring.kube.objects.storage import CSINode, PersistentVolume

NodeChanged = Callable[[str], None]
VolumeChanged = Callable[[str], None]


class AttachableObjects(Protocol):
    """PersistentVolumes and CSINodes by name."""

    def listen(self, node_changed: NodeChanged, volume_changed: VolumeChanged) -> None: ...

    async def volume(self, name: str) -> PersistentVolume | None: ...

    async def csi_node(self, name: str) -> CSINode | None: ...


class InformedObjects:
    """All of a cluster, as informers know them."""

    def __init__(self, factory: SharedInformerFactory) -> None:
        self._volumes = factory.informer(PERSISTENT_VOLUME)
        self._nodes = factory.informer(CSI_NODE)

    def listen(self, node_changed: NodeChanged, volume_changed: VolumeChanged) -> None:
        self._nodes.add_event_handler(
            Handler(
                on_add=lambda node, is_initial: node_changed(node.metadata.name),
                on_update=lambda old, new: node_changed(new.metadata.name),
                on_delete=lambda node: None,
            )
        )
        self._volumes.add_event_handler(
            Handler(
                on_add=lambda volume, is_initial: volume_changed(volume.metadata.name),
                on_update=lambda old, new: volume_changed(new.metadata.name),
                on_delete=lambda volume: None,
            )
        )

    async def volume(self, name: str) -> PersistentVolume | None:
        return self._volumes.indexer.get_by_key(name)

    async def csi_node(self, name: str) -> CSINode | None:
        return self._nodes.indexer.get_by_key(name)


class AskedObjects:
    """Single ones, asked for when they are needed: a node of a cluster may not follow all. Nobody tells of changes."""

    def __init__(self, api: Reader) -> None:
        self._api = api

    def listen(self, node_changed: NodeChanged, volume_changed: VolumeChanged) -> None:
        return None

    async def volume(self, name: str) -> PersistentVolume | None:
        try:
            return await self._api.get(PERSISTENT_VOLUME, "", name)
        except NotFound:
            return None

    async def csi_node(self, name: str) -> CSINode | None:
        try:
            return await self._api.get(CSI_NODE, "", name)
        except NotFound:
            return None
