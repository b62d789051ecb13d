"""What `mooring up` would do over manifests, found out without doing any of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mooring.controllers.planned_binding import PlannedBinding
from mooring.controllers.token_manager import UnsignedTokens
from mooring.daemon.building import build_manager
from mooring.daemon.mistakes import BadManifests, mistakes_in
from mooring.daemon.node_facts import node_facts
from mooring.errors import MooringError
from mooring.host.linux import LinuxHost
from mooring.host.paths import Paths
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.objects.node import Node
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.kube.objects.volumes import Volume
from mooring.manager.node_affinity import matches_node
from mooring.manager.reconstruction import Reconstruction
from mooring.manager.volume_manager import VolumeManager
from mooring.plugins.flex_prober import FlexProber
from mooring.plugins.interface import NodeFacts, Setup
from mooring.settings import Settings
from mooring.sources.manifest_files import ManifestFiles, scan
from mooring.sources.object_table import ObjectTable
from mooring.world.desired import DesiredMount, DesiredVolume
from mooring.world.names import PodUid, VolumeName
from mooring.world.operations import Attach, Mount, Stage, Unmount, VolumeOperation, kind_of, pod_of
from mooring.world.planner import plan
from mooring.world.pod_facts import fs_group, fs_group_mode, fs_user
from mooring.world.spec import VolumeSpec

Row = dict[str, Any]


def plan_manifests(settings: Settings, paths: Sequence[str]) -> dict[str, list[Row]]:
    """Operations that are due, and volumes that would wait, against what is on this machine now."""
    manager = _manager_of(settings, paths)
    rows: list[Row] = []
    for name in sorted({*manager.desired.volumes, *manager.actual.volumes}):
        steps = plan(manager.desired.volumes.get(name), manager.actual.volumes.get(name), manager.gates)
        rows.extend(_row(manager, operation) for operation in steps.operations)
    waits = list(_waits(manager))
    waiting = {(wait["pod"], wait["volume"]) for wait in waits}
    operations = [row for row in rows if (row["pod"], row["volume"]) not in waiting]
    return {"operations": operations, "waits": waits}


def _manager_of(settings: Settings, paths: Sequence[str]) -> VolumeManager:
    reading = ManifestFiles(settings.node_name).read(scan(paths).files)
    mistakes = mistakes_in(reading.findings)
    if mistakes:
        raise BadManifests(mistakes, "nothing can be planned")
    objects, nodes = ObjectTable(), []
    for obj, _ in reading.objects.values():
        if isinstance(obj, Node):
            nodes.append(obj)
        elif not isinstance(obj, Pod):
            objects.put(obj)
    facts = node_facts(settings, lambda: nodes[0] if len(nodes) == 1 else None)
    _bind([obj for obj, _ in reading.objects.values()], objects, facts)
    host = LinuxHost()
    manager = build_manager(settings, host, objects, facts, clock=lambda: 0.0, tokens=UnsignedTokens(objects))
    assert isinstance(manager.plugins.prober, FlexProber)
    manager.plugins.prober.assume_all()  # a plan runs nothing, so it does not ask drivers what they can do
    found = manager.intents.read().intents
    Reconstruction(host, Paths(settings.root), manager.plugins, manager.actual, lambda _: None, intents=found).run()
    for obj, _ in reading.objects.values():
        if isinstance(obj, Pod):
            manager.pod_changed(obj)
    manager.sources_heard()
    return manager


def _bind(manifests: Sequence[KubernetesObject], objects: ObjectTable, facts: Callable[[], NodeFacts]) -> None:
    """Let claims find their volumes, as they would while the daemon runs."""
    planned = PlannedBinding(
        [obj for obj in manifests if isinstance(obj, PersistentVolumeClaim)],
        [obj for obj in manifests if isinstance(obj, PersistentVolume)],
        [obj for obj in manifests if isinstance(obj, StorageClass)],
        lambda volume: matches_node(volume, facts().name, facts().labels),
    )
    for claim in planned.claims.values():
        objects.put(claim)
    for volume in planned.volumes.values():
        objects.put(volume)


def _row(manager: VolumeManager, operation: VolumeOperation) -> Row:
    uid = pod_of(operation)
    pod = manager.pods.get(uid) if uid is not None else None
    desired, actual = manager.desired.volumes.get(operation.volume), manager.actual.volumes.get(operation.volume)
    subject = desired or actual
    assert subject is not None
    spec = _spec(manager, operation.volume, uid)
    offer = manager.plugins.find_by_name(subject.plugin).offer(spec)
    return {
        "operation": kind_of(operation),
        "pod": pod.key if pod is not None else uid,
        "volume": spec.name,
        "plugin": subject.plugin,
        "path": offer.mounter.path(uid, spec) if uid is not None else None,
        "risks": [*_found(manager, operation), *_risks(operation, spec, pod)],
    }


def _found(manager: VolumeManager, operation: VolumeOperation) -> Iterator[str]:
    """What an earlier process left is set up again, which finds the work done."""
    uid = pod_of(operation)
    if isinstance(operation, Mount) and uid is not None and manager.actual.mount(uid, operation.volume) is not None:
        yield "is there already: only what differs is written"


def _spec(manager: VolumeManager, name: VolumeName, uid: PodUid | None) -> VolumeSpec:
    desired, actual = manager.desired.volumes.get(name), manager.actual.volumes.get(name)
    if desired is not None:
        mount = desired.mounts.get(uid) if uid is not None else None
        return (mount or next(iter(desired.mounts.values()))).spec
    assert actual is not None
    held = actual.mounts.get(uid) if uid is not None else None
    return held.spec if held is not None else actual.spec


def _risks(operation: VolumeOperation, spec: VolumeSpec, pod: Pod | None) -> Iterator[str]:
    volume, persistent = spec.volume, spec.persistent_volume
    if isinstance(operation, Unmount) and volume is not None and volume.empty_dir is not None:
        yield "deletes the data in it"
    yield from _device_risks(operation, spec)
    local = persistent.spec.local if persistent is not None else None
    if isinstance(operation, Stage) and local is not None and not spec.is_block:
        yield f"formats {local.path} if it is a disk that carries nothing"
    if not isinstance(operation, Mount):
        return
    host_path = volume.host_path if volume is not None else (persistent.spec.host_path if persistent else None)
    if host_path is not None:
        yield f"gives containers {host_path.path} of this machine"
        if host_path.type.endswith("OrCreate"):
            yield "creates it on this machine if it is missing"
    group = fs_group(pod) if pod is not None else None
    if group is not None and host_path is None:
        yield f"gives its files to group {group}"


def _device_risks(operation: VolumeOperation, spec: VolumeSpec) -> Iterator[str]:
    holder = spec.persistent_volume.spec if spec.persistent_volume is not None else spec.volume
    assert holder is not None
    if isinstance(operation, Mount) and holder.nfs is not None:
        yield f"waits for {holder.nfs.server}, which may not answer"
    brings_device = isinstance(operation, Attach | Stage)  # a plan shows the first of the two
    if brings_device and holder.iscsi is not None:
        yield f"logs in to {holder.iscsi.iqn} at {holder.iscsi.target_portal}"
    if brings_device and holder.fc is not None:
        yield "lets all SCSI hosts look for disks if the disk is not there yet"
    if brings_device and (holder.iscsi or holder.fc) is not None and not spec.is_block:
        yield "formats the disk if it carries nothing"
    if holder.flex_volume is not None:
        yield f"runs the driver {holder.flex_volume.driver} as the user that mooring runs as"
    if isinstance(operation, Mount) and isinstance(holder, Volume) and holder.git_repo is not None:
        yield f"runs git on {holder.git_repo.repository}"


def _waits(manager: VolumeManager) -> Iterator[Row]:
    """Volumes that would not be mounted: those that cannot be worked out, and those that a set-up would refuse."""
    for pod in manager.pods:
        uid = PodUid(pod.metadata.uid)
        for outer, problem in sorted(manager.desired.problems(uid).items()):
            yield {"pod": pod.key, "volume": outer, "cause": str(problem), "next_step": problem.next_step or None}
        for name in sorted(set(manager.desired.names_for_pod(uid).values())):
            volume = manager.desired.volumes[name]
            try:
                _check(manager, volume, volume.mounts[uid])
            except MooringError as error:
                cause, spec = f"{error.what}: {error.why}", volume.mounts[uid].spec
                yield {"pod": pod.key, "volume": spec.name, "cause": cause, "next_step": error.next_step or None}


def _check(manager: VolumeManager, volume: DesiredVolume, wish: DesiredMount) -> None:
    offer = manager.plugins.find_by_name(volume.plugin).offer(wish.spec)
    if offer.checker is not None:
        uid = PodUid(wish.pod.metadata.uid)
        group = fs_group(wish.pod)
        if group is not None:
            fs_group_mode(wish.pod)
        request = Setup(pod=wish.pod, uid=uid, spec=wish.spec, fs_user=fs_user(wish.pod), fs_group=group)
        offer.checker.check(request)
