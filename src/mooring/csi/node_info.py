"""What drivers say about this node, kept where others look: on the CSINode, and on the Node."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from mooring.csi.drivers import Driver
from mooring.csi.migration import TRANSLATORS
from mooring.errors import Refused
from mooring.kube.api import AlreadyExists, Api, Conflict, NotFound
from mooring.kube.objects.kinds import CSI_NODE, NODE
from mooring.kube.objects.meta import ObjectMeta, OwnerReference
from mooring.kube.objects.node import Node
from mooring.kube.objects.storage import CSINode, CSINodeDriver, VolumeNodeResources
from mooring.rpc import csi

log = logging.getLogger(__name__)

NODE_ID_ANNOTATION = "csi.volume.kubernetes.io/nodeid"
MIGRATED_ANNOTATION = "storage.alpha.kubernetes.io/migrated-plugins"
MIGRATED = ",".join(sorted(each.plugin for each in TRANSLATORS))
_LARGEST_COUNT = 2**31 - 1
_ATTEMPTS = 4


class NodeInfoManager:
    """Writes for one node, one driver at a time. A node without an object of its own only has a CSINode."""

    def __init__(self, api: Api, node_name: str) -> None:
        self._api = api
        self._node_name = node_name
        self._turn = asyncio.Lock()
        self.topology: dict[str, str] = {}  # segments that drivers told, which count as labels of the node

    async def begin(self) -> str:
        """Let there be a CSINode that belongs to the Node; the UID of that, or nothing as long as there is no Node."""
        async with self._turn:
            node = await self._node()
            if node is None:
                return ""
            await self._update(node, "", None, makes=True)
            return node.metadata.uid

    async def install(self, driver: Driver) -> None:
        """Note what a driver that has registered says: first on the Node, then on the CSINode."""
        told = driver.node_info
        if told is None or not told.node_id:
            raise Refused(f"cannot register CSI driver {driver.name!r}", why="it told no ID of this node")
        async with self._turn:
            node = await self._node()
            self._learn_topology(driver.name, told.accessible_topology.segments, node)
            if node is not None:
                await self._annotate(node, driver.name, told.node_id)
            await self._update(node, driver.name, driver_entry(driver.name, told))

    async def uninstall(self, name: str) -> None:
        """Forget a driver that has gone: first on the CSINode, then on the Node. Labels stay."""
        async with self._turn:
            node = await self._node()
            await self._update(node, name, None)
            if node is not None:
                await self._annotate(node, name, None)

    async def refresh(self, driver: Driver) -> None:
        """Ask a driver again, and note on the CSINode alone what has changed, such as how many volumes it can have."""
        told = await driver.client.get_info()
        driver.node_info = told
        async with self._turn:
            await self._update(await self._node(), driver.name, driver_entry(driver.name, told))

    async def _node(self) -> Node | None:
        try:
            return await self._api.get(NODE, "", self._node_name)
        except NotFound:
            return None

    def _learn_topology(self, driver: str, segments: Mapping[str, str], node: Node | None) -> None:
        labels = node.metadata.labels if node is not None else {}
        for key, value in sorted(segments.items()):
            known = labels.get(key, self.topology.get(key, value))
            if known != value:
                log.warning("driver %s says %s=%s of this node, which has %s already", driver, key, value, known)
            self.topology.setdefault(key, value)

    async def _annotate(self, node: Node, driver: str, node_id: str | None) -> None:
        """Set or remove a driver's entry in the annotation, and set the labels that the Node does not have yet."""
        written = node.metadata.annotations.get(NODE_ID_ANNOTATION, "")
        ids = _read_ids(written) if written else {}
        if node_id is None:
            ids.pop(driver, None)
        else:
            ids[driver] = node_id
        text = json.dumps(ids, sort_keys=True, separators=(",", ":")) if ids else None
        patch: dict[str, Any] = {}
        if (text or "") != written:
            patch["annotations"] = {NODE_ID_ANNOTATION: text}
        fresh = {key: value for key, value in self.topology.items() if key not in node.metadata.labels}
        if fresh and node_id is not None:
            patch["labels"] = fresh
        if patch:
            await self._api.patch(NODE, "", node.metadata.name, {"metadata": patch})

    async def _update(self, node: Node | None, name: str, entry: CSINodeDriver | None, *, makes: bool = False) -> None:
        for _ in range(_ATTEMPTS):
            try:
                found = await self._csi_node(node)
                if found is None:
                    if entry is None and not makes:
                        return
                    found = await self._api.create(_new_csi_node(self._node_name, node))
                others = tuple(each for each in found.spec.drivers if each.name != name)
                drivers = others if entry is None else (*others, entry)
                known = found.metadata.annotations.get(MIGRATED_ANNOTATION)
                owners = found.metadata.owner_references or _owners(node)
                same = set(drivers) == set(found.spec.drivers) and owners == found.metadata.owner_references
                if same and known == MIGRATED:
                    return
                patch = {
                    "metadata": {
                        "resourceVersion": found.metadata.resource_version,
                        "annotations": {MIGRATED_ANNOTATION: MIGRATED},
                        "ownerReferences": [msgspec.to_builtins(each) for each in owners],
                    },
                    "spec": {"drivers": [msgspec.to_builtins(each) for each in drivers]},
                }
                await self._api.patch(CSI_NODE, "", found.metadata.name, patch)
            except (Conflict, AlreadyExists, NotFound):
                continue
            return
        raise Refused(f"cannot note CSI driver {name!r}", why=f"CSINode {self._node_name!r} keeps changing")

    async def _csi_node(self, node: Node | None) -> CSINode | None:
        """The CSINode; one that belonged to an earlier Node of this name is deleted."""
        try:
            found = await self._api.get(CSI_NODE, "", self._node_name)
        except NotFound:
            return None
        if node is None or any(owner.uid == node.metadata.uid for owner in found.metadata.owner_references):
            return found
        if not found.metadata.owner_references:
            return found  # written by hand, or before the Node was known: it is adopted with the next write
        with suppress(NotFound):
            await self._api.delete(CSI_NODE, "", self._node_name)
        return None


def driver_entry(name: str, told: csi.NodeGetInfoResponse) -> CSINodeDriver:
    """What a CSINode says of a driver. A limit of nothing, or one that makes no sense, is none."""
    most = told.max_volumes_per_node
    if most < 0:
        log.warning("driver %s says that this node can have %d volumes of it", name, most)
    return CSINodeDriver(
        name=name,
        node_id=told.node_id,
        topology_keys=tuple(sorted(told.accessible_topology.segments)),
        allocatable=VolumeNodeResources(count=min(most, _LARGEST_COUNT)) if most > 0 else None,
    )


def _owners(node: Node | None) -> tuple[OwnerReference, ...]:
    """Whom a CSINode goes with."""
    if node is None:
        return ()
    return (OwnerReference(api_version="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid),)


def _new_csi_node(name: str, node: Node | None) -> CSINode:
    meta = ObjectMeta(name=name, owner_references=_owners(node), annotations={MIGRATED_ANNOTATION: MIGRATED})
    return CSINode(metadata=meta)


def _read_ids(written: str) -> dict[str, str]:
    try:
        ids = msgspec.json.decode(written, type=dict[str, str])
    except msgspec.MsgspecError as error:
        why = f"its annotation {NODE_ID_ANNOTATION} makes no sense: {error}"
        raise Refused("cannot note the node's ID on the Node", why=why, next_step="Correct or remove it") from error
    return ids
