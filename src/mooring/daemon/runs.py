"""Runs of pods in a running instance: what a client asks for before it starts containers and after they ended."""

from __future__ import annotations

import os
import uuid
from typing import Any

import msgspec

from mooring.errors import InvalidInput, Refused
from mooring.host.paths import Paths
from mooring.kube.objects.pod import Pod
from mooring.manager.pods import KnownPods
from mooring.manager.volume_manager import VolumeManager
from mooring.plugins.interface import ObjectRef
from mooring.runtimes.choice import check_runtime
from mooring.runtimes.interface import RunPlan
from mooring.runtimes.pod_plan import plan_run
from mooring.runtimes.processes import ClientProcess, process_of
from mooring.runtimes.records import RecordedContainer, RunRecord, RunRequest
from mooring.runtimes.supervisor import RunSupervisor
from mooring.world.names import PodUid

Row = dict[str, Any]
_END_WITHIN = 20.0
"""Seconds that a client waits for the certainty that nothing of its run is left."""


class RunVolumes:
    """The volumes that containers may use, as the supervisor of runs sees them."""

    def __init__(self, manager: VolumeManager, states: KnownPods) -> None:
        self._manager, self._states = manager, states

    def wants(self, uid: PodUid) -> bool:
        return not (self._manager.gates.sources_heard and self._states.containers_terminating(uid))

    def containers_changed(self, uid: PodUid, left: str | None) -> None:
        if left is None:
            self._states.with_containers.discard(uid)
        else:
            self._states.with_containers.add(uid)
        self._manager.containers_changed(uid, left)


class PodsAndRuns:
    """Told about pods and objects: the manager is, and who keeps their runs."""

    def __init__(self, manager: VolumeManager, runs: RunSupervisor) -> None:
        self._manager, self._runs = manager, runs

    def pod_changed(self, pod: Pod) -> None:
        self._manager.pod_changed(pod)
        self._runs.look_at_all()  # it may have taken the place of one of its name

    def pod_removed(self, uid: PodUid) -> None:
        self._manager.pod_removed(uid)
        self._runs.look(uid)

    def object_changed(self, ref: ObjectRef) -> None:
        self._manager.object_changed(ref)


class RunControl:
    """Begins and ends runs on behalf of clients."""

    def __init__(self, paths: Paths, manager: VolumeManager, states: KnownPods, runs: RunSupervisor) -> None:
        self._paths, self._manager, self._states, self._runs = paths, manager, states, runs

    async def begin(self, pod: Pod, body: bytes, client: int) -> Row:
        """Write the record of a run, and tell its client what to start. The pod's volumes are mounted."""
        try:
            request = msgspec.json.decode(body, type=RunRequest)
        except msgspec.DecodeError as error:
            raise InvalidInput("cannot read the request", why=str(error)) from error
        check_runtime(request.runtime)
        process = _client(client)
        views = await self._manager.get_container_mounts(pod, recursive_read_only=request.recursive_read_only)
        uid, run = PodUid(pod.metadata.uid), uuid.uuid4().hex[:12]
        if self._states.containers_terminating(uid):
            raise Refused(f"cannot run pod {pod.key!r}", why="it was deleted just now")
        plan = plan_run(
            pod,
            views,
            self._manager.environment_sources(),
            run=run,
            log_directory=self._paths.run_logs_dir(uid),
            extra_groups=self._manager.get_extra_supplemental_groups_for_pod(pod),
            images=request.images,
        )
        self._runs.begin(_record(plan, request, process))
        answer: Row = msgspec.to_builtins(plan)
        return answer

    async def end(self, uid: str, run: str) -> Row:
        """The client has ended; `done` is false, with the reason, when something may still be there."""
        cause = await self._runs.end(PodUid(uid), run, timeout=_END_WITHIN)
        return {"done": cause is None, "cause": cause}


def _client(pid: int) -> ClientProcess:
    """The process that asks. It must see the same mounts, or its containers would be given empty directories."""
    process = process_of(pid) if pid else None
    what = "cannot run containers for this client"
    if process is None:
        next_step = "Run it where the daemon runs, not in a container of its own"
        raise Refused(what, why="the daemon does not see its process", next_step=next_step)
    if os.stat(f"/proc/{pid}/ns/mnt").st_ino != os.stat("/proc/self/ns/mnt").st_ino:
        next_step = "Run it as `mooring enter -- mooring run …`"
        raise Refused(what, why="the volumes are mounted in a namespace that it is not in", next_step=next_step)
    return process


def _record(plan: RunPlan, request: RunRequest, client: ClientProcess) -> RunRecord:
    return RunRecord(
        uid=plan.uid,
        pod=plan.pod,
        run=plan.run,
        runtime=request.runtime,
        client=client,
        containers=tuple(RecordedContainer(name=each.name, role=each.role) for each in plan.containers),
        options=request.options,
        sandbox=f"{plan.name}_{plan.namespace}_{plan.uid}_0" if request.runtime == "cri" else "",
        grace_seconds=plan.grace_seconds,
    )
