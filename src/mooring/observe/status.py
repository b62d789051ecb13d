"""The node as tables: pods, volumes, operations, events and findings, in the shapes of `-o json`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from mooring.kube.api import NotFound
from mooring.kube.objects.pod import Pod
from mooring.observe.history import History
from mooring.world.actual import ActualMount, ActualStateOfWorld
from mooring.world.desired import DesiredStateOfWorld
from mooring.world.explain import (
    Explanation,
    HoldUp,
    RunningKinds,
    VolumeReport,
    VolumeState,
    explain,
    report_mounted,
    report_problem,
    report_volume,
)
from mooring.world.findings import Finding
from mooring.world.names import PodUid, VolumeName, split_volume_name
from mooring.world.planner import Gates
from mooring.world.pod_facts import volume_use
from mooring.world.progress import Progress

Row = dict[str, Any]


class Pods(Protocol):
    """The pods this node serves."""

    def __iter__(self) -> Any: ...

    def get(self, uid: PodUid) -> Pod | None: ...

    def find(self, key: str) -> Pod | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """What can be looked at: the manager's parts, and nothing that changes them."""

    pods: Pods
    desired: DesiredStateOfWorld
    actual: ActualStateOfWorld
    gates: Callable[[], Gates]
    running: Callable[[VolumeName], RunningKinds]
    findings: Callable[[], Iterable[Finding]]
    history: History
    namesakes: Callable[[VolumeName], frozenset[PodUid]] = lambda name: frozenset()
    containers: Callable[[PodUid], str | None] = lambda uid: None
    held_up: Callable[[VolumeName, PodUid], HoldUp | None] = lambda name, uid: None
    progress: Callable[[VolumeName, PodUid], Progress | None] = lambda name, uid: None
    drivers: Callable[[], list[Row]] = list
    complaints: Callable[[PodUid, VolumeName], tuple[str, ...]] = lambda uid, name: ()


def iso(seconds: float | None) -> str | None:
    """A time since 1970 as text, to the millisecond."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _progress_row(progress: Progress | None) -> Row | None:
    if progress is None:
        return None
    return {
        "group": progress.group,
        "visited": progress.visited,
        "changed": progress.changed,
        "failed": progress.failed,
        "expected": progress.expected,
        "seconds": round(progress.seconds, 3),
        "rate": round(progress.rate, 1) if progress.rate is not None else None,
        "seconds_left": round(progress.seconds_left, 1) if progress.seconds_left is not None else None,
    }


class Status:
    """Answers for `get`, `describe`, `explain` and `timeline`."""

    def __init__(self, view: NodeView) -> None:
        self._view = view

    def drivers(self) -> list[Row]:
        """One row per CSI driver, and per socket that has not told whose it is."""
        return self._view.drivers()

    # -- volumes -------------------------------------------------------------------------------------------------
    def volumes(self) -> list[Row]:
        """One row per volume of each pod, and per mount that nobody wants any more; sorted by pod and name."""
        rows = [row for pod in self._view.pods for row in self._volumes_of(pod)]
        rows.extend(self._unwanted())
        return sorted(rows, key=lambda row: (row["pod"], row["volume"], row["pod_uid"]))

    def _volumes_of(self, pod: Pod) -> list[Row]:
        uid = PodUid(pod.metadata.uid)
        return [self._row(pod.key, uid, report) for report in self.reports(pod)]

    def reports(self, pod: Pod) -> tuple[VolumeReport, ...]:
        """What is to be said of each volume that the pod's containers use."""
        view, uid = self._view, PodUid(pod.metadata.uid)
        names, problems = view.desired.names_for_pod(uid), view.desired.problems(uid)
        used = volume_use(pod).names
        found: list[VolumeReport] = []
        for volume in pod.spec.volumes:
            if volume.name not in used:
                continue
            name, problem = names.get(volume.name), problems.get(volume.name)
            if problem is not None:
                found.append(report_problem(volume.name, problem))
            elif name is not None:
                found.append(self._report(uid, volume.name, name))
        return tuple(found)

    def _report(self, uid: PodUid, outer: str, name: VolumeName) -> VolumeReport:
        view = self._view
        desired, actual = view.desired.volumes.get(name), view.actual.volumes.get(name)
        if view.pods.get(uid) is None and actual is not None:
            desired = None  # it is kept for containers that have not ended, and nobody wants it any more
        if (mounted := report_mounted(uid, outer, desired, actual)) is not None:
            return mounted  # nearly all of them are, and nothing more need be asked
        return report_volume(
            uid,
            outer,
            desired,
            actual,
            view.gates(),
            view.running(name),
            namesakes=view.namesakes(name),
            held_up=view.held_up(name, uid),
            progress=view.progress(name, uid),
        )

    def _unwanted(self) -> list[Row]:
        view = self._view
        rows = []
        for uid in sorted(view.actual.pods()):
            for name, mount in view.actual.mounts_of_pod(uid):
                pod = view.pods.get(uid)
                if pod is None or view.desired.mount(uid, name) is None:
                    shown = pod.key if pod is not None else self._former_name(uid)
                    rows.append(self._row(shown, uid, self._report(uid, mount.spec.name, name)))
        return rows

    def _former_name(self, uid: PodUid) -> str:
        named = [entry.pod_name for entry in self._view.history.of_pod(uid) if entry.pod_name]
        return named[-1] if named else f"?/{uid}"

    def _row(self, pod: str, uid: PodUid, report: VolumeReport) -> Row:
        mount = self._mount(uid, report.name)
        mounted = report.state is VolumeState.MOUNTED
        return {
            "name": report.name,
            "pod": pod,
            "pod_uid": uid,
            "volume": report.volume,
            "plugin": split_volume_name(report.name)[0] if report.name is not None else None,
            "state": report.state.value,
            "path": mount.path or None if mount is not None else None,
            "reason": report.cause,
            "next_step": report.next_step,
            "attempts": report.attempts,
            "mounted_at": iso(self._view.history.mounted_at(uid, report.name)) if mounted and report.name else None,
            "progress": _progress_row(report.progress),
            "health": "; ".join(self._view.complaints(uid, report.name)) or None if report.name is not None else None,
        }

    def _mount(self, uid: PodUid, name: VolumeName | None) -> ActualMount | None:
        return self._view.actual.mount(uid, name) if name is not None else None

    # -- pods ----------------------------------------------------------------------------------------------------
    def pods(self) -> list[Row]:
        return sorted((self.pod(pod) for pod in self._view.pods), key=lambda row: str(row["pod"]))

    def pod(self, pod: Pod) -> Row:
        verdict = self.explanation(pod)
        mounted = sum(report.state is VolumeState.MOUNTED for report in verdict.volumes)
        return {
            "pod": pod.key,
            "uid": pod.metadata.uid,
            "ready": verdict.ready,
            "mounted": mounted,
            "volumes": len(verdict.volumes),
            "cause": verdict.cause,
            "containers": self._view.containers(PodUid(pod.metadata.uid)),
        }

    def explanation(self, pod: Pod, volume: str | None = None) -> Explanation:
        reports = self.reports(pod)
        if volume is None:
            return explain(reports)
        chosen = tuple(report for report in reports if report.volume == volume)
        if not chosen:
            raise NotFound(
                f"cannot explain volume {volume!r} of pod {pod.key!r}",
                why="no container of the pod uses a volume of that name",
                next_step=f"Its volumes are: {', '.join(report.volume for report in reports) or 'none'}",
            )
        return explain(chosen)

    def explain(self, pod: Pod, volume: str | None = None) -> Row:
        """The object that `explain -o json` prints."""
        verdict = self.explanation(pod, volume)
        return {
            "pod": pod.key,
            "uid": pod.metadata.uid,
            "ready": verdict.ready,
            "cause": verdict.cause,
            "volumes": [
                {
                    "volume": report.volume,
                    "state": report.state.value,
                    "cause": report.cause,
                    "next_step": report.next_step,
                    "attempts": report.attempts,
                }
                for report in verdict.volumes
            ],
        }

    # -- the rest ------------------------------------------------------------------------------------------------
    def operations(self) -> list[Row]:
        """What is being done right now."""
        view = self._view
        rows = []
        for name in sorted({*view.desired.volumes, *view.actual.volumes}):
            for part, kind in view.running(name).items():
                pod = view.pods.get(PodUid(part)) if part is not None else None
                rows.append({"volume": name, "pod": pod.key if pod is not None else part, "operation": kind})
        return rows

    def findings(self) -> list[Row]:
        return [
            {"kind": each.kind, "where": each.where, "what": each.what, "next_step": each.next_step}
            for each in self._view.findings()
        ]

    def timeline(self, uid: str, volume: str | None = None) -> list[Row]:
        """What happened to a pod's volumes, oldest first."""
        return [
            {
                "at": iso(entry.at),
                "volume": entry.volume or None,
                "what": entry.what,
                "result": entry.result or None,
                "seconds": entry.seconds,
                "detail": entry.detail or None,
            }
            for entry in self._view.history.of_pod(uid, volume)
        ]
