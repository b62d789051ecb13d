"""Volumes that a person has a CSI driver make or delete, by hand and without a daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mooring.csi.client import CallFailed, DriverClient, Kind
from mooring.errors import Refused
from mooring.kube.quantity import Notation, Quantity
from mooring.stubs import csi_pb2 as csi
from mooring.stubs import csi_pb2_grpc as services


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A volume that a driver is to make."""

    name: str
    size: int
    fs_type: str = ""
    block: bool = False
    parameters: Mapping[str, str]


async def create_volume(endpoint: str, wanted: Wanted) -> dict[str, Any]:
    """The manifest of a PersistentVolume for what the driver made."""
    what = f"cannot create volume {wanted.name!r}"
    async with _asking(endpoint, what) as client:
        identity: services.IdentityAsyncStub = services.IdentityStub(client.channel)
        controller: services.ControllerAsyncStub = services.ControllerStub(client.channel)
        about = await client.call(identity.GetPluginInfo, csi.GetPluginInfoRequest(), Kind.TRANSIENT)
        made = await client.call(controller.CreateVolume, _request(wanted), None)
    return _manifest(wanted, about.name, made.volume)


async def delete_volume(endpoint: str, handle: str) -> None:
    async with _asking(endpoint, f"cannot delete volume {handle!r}") as client:
        controller: services.ControllerAsyncStub = services.ControllerStub(client.channel)
        await client.call(controller.DeleteVolume, csi.DeleteVolumeRequest(volume_id=handle), Kind.FINISHED)


@asynccontextmanager
async def _asking(endpoint: str, what: str) -> AsyncIterator[DriverClient]:
    client = DriverClient(endpoint)
    try:
        yield client
    except CallFailed as error:
        next_step = f"Does a driver listen at {endpoint}?" if error.code.name == "UNAVAILABLE" else ""
        raise Refused(what, why=error.why, next_step=next_step) from error
    finally:
        await client.retire()


def _request(wanted: Wanted) -> csi.CreateVolumeRequest:
    mode = csi.VolumeCapability.AccessMode(mode=csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER)
    capability = csi.VolumeCapability(access_mode=mode)
    if wanted.block:
        capability.block.SetInParent()
    else:
        capability.mount.fs_type = wanted.fs_type
        capability.mount.SetInParent()
    return csi.CreateVolumeRequest(
        name=wanted.name,
        capacity_range=csi.CapacityRange(required_bytes=wanted.size),
        volume_capabilities=[capability],
        parameters=wanted.parameters,
    )


def _manifest(wanted: Wanted, driver: str, volume: csi.Volume) -> dict[str, Any]:
    source: dict[str, Any] = {"driver": driver, "volumeHandle": volume.volume_id}
    if wanted.fs_type:
        source["fsType"] = wanted.fs_type
    if volume.volume_context:
        source["volumeAttributes"] = dict(volume.volume_context)
    size = volume.capacity_bytes or wanted.size
    spec: dict[str, Any] = {
        "capacity": {"storage": str(Quantity(size * 10**9, Notation.BINARY))},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "volumeMode": "Block" if wanted.block else "Filesystem",
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": source,
    }
    terms = [_term(topology.segments) for topology in volume.accessible_topology]
    if terms:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": wanted.name}, "spec": spec}


def _term(segments: Mapping[str, str]) -> dict[str, Any]:
    found = [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(segments.items())]
    return {"matchExpressions": found}
