"""From a seed to a script: everything is drawn from one `random.Random`."""

from __future__ import annotations

from collections.abc import Callable

from mooring.testing.simulation.disks import DISKS
from mooring.testing.simulation.script import (
    AnyStep,
    BreakReads,
    Crash,
    DamageRecord,
    DeleteClaim,
    DeleteDisk,
    DeleteObject,
    DriverStrike,
    DropVolume,
    EndContainers,
    HoldOpen,
    JumpClock,
    LetGo,
    LimitDisk,
    LoseDriver,
    MakePath,
    MountForeign,
    Pass,
    PutClaim,
    PutObject,
    PutPod,
    PutVolume,
    Reboot,
    RelabelPod,
    RemovePod,
    Resize,
    Restart,
    ReturnDriver,
    RunContainers,
    Script,
    Settle,
    Strike,
    Turn,
    UnmountByHand,
    WaitForPod,
    WriteFile,
)
from mooring.testing.simulation.volume_drawing import (
    CLAIMED,
    DIRECTORIES,
    INLINES,
    MEMORIES,
    OBJECTS,
    OWN,
    PATHS,
    PODS,
    WRITABLE,
    VolumeDrawing,
)
from mooring.testing.simulation.wishes import PodWish

LEAST_CRASHES = 3


def make_script(seed: int, crashes: int = LEAST_CRASHES) -> Script:
    """The history of a seed, with at least so many crashes: always the same one."""
    return _Author(seed, crashes).write()


class _Author(VolumeDrawing):
    """Draws steps. It remembers roughly what there is, so that most steps find something to act on."""

    def __init__(self, seed: int, crashes: int) -> None:
        super().__init__(seed)
        self._seed = seed
        self._crashes = crashes
        self._pods: dict[str, list[str]] = {}  # names of the volumes by pod
        self._troubled = self._random.random() < 0.85  # the others have no faults but the crashes asked for
        self._wishes: dict[str, PodWish] = {}  # as each pod was last put
        self._generations: dict[str, int] = {}

    def write(self) -> Script:
        latency = self._random.choice((0.0, 0.05, 0.5, 0.5, 5.0))
        steps: list[AnyStep] = []
        for kind, name in OBJECTS:
            if self._random.random() < 0.8:
                steps.append(PutObject(kind=kind, name=name, data=self._data()))
        if self._drivers:
            steps += [PutClaim(disk=disk) for disk in self._disks if self._random.random() < 0.85]
        length = len(steps) + self._random.randint(12, 34)
        while len(steps) < length:
            steps += self._moment(self._step())
        while sum(isinstance(step, Crash) for step in steps) < self._crashes:
            steps += self._moment(self._crash())
        return Script(seed=self._seed, latency=latency, steps=tuple(steps))

    def _moment(self, step: AnyStep) -> list[AnyStep]:
        """A step with what gives it something to hit, and the time after it."""
        steps = [step]
        hits = isinstance(step, Crash | Strike | DriverStrike)
        if hits:
            stirring = (self._put_pod, self._put_pod, self._remove_pod, self._put_volume, self._drop_volume)
            steps.append(self._random.choice((*stirring, *(() if self._drivers else (self._put_object,))))())
        if isinstance(step, RemovePod) and step.pod in self._wishes and self._random.random() < 0.5:
            steps += [self._short_time(), self._put_again(self._wishes[step.pod])]
        if isinstance(step, PutPod | PutObject) and not self._drivers and self._random.random() < 0.4:
            steps += [self._short_time(), self._put_object()]
        if isinstance(step, DamageRecord | BreakReads) or (
            isinstance(step, LoseDriver) and self._random.random() < 0.5
        ):
            steps.append(self._end())
        if hits or self._random.random() < 0.55:
            steps.append(self._time())
        return steps

    def _step(self) -> AnyStep:
        makers: list[tuple[int, Callable[[], AnyStep]]] = [
            (5 if len(self._pods) < 2 else 2, self._put_pod),
            (2, self._remove_pod),
            (1 if self._drivers else 5, self._put_object),
            (1, self._delete_object),
            (1 if self._drivers else 3, self._relabel),
            (2, self._put_volume),
            (1, self._drop_volume),
            (1, self._wait),
            (3, self._write_file),
            (1 if self._drivers else 2, self._obstruct),
            (1, self._unmount_by_hand),
            (1, LetGo),
            (1, lambda: MakePath(path=self._random.choice(PATHS))),
            (1, Settle),
        ]
        if self._troubled:
            makers += [(4, self._strike), (7, self._crash), (3, self._end), (1, self._limit_disk)]
            makers += [(1, self._jump_clock), (1, self._break_reads)]
        if self._drivers:
            makers += [
                (3, self._put_claim),
                (2, self._delete_claim),
                (2, self._run_containers),
                (2, self._end_containers),
            ]
            makers += [(1, self._resize)]
        if self._drivers and self._troubled:
            makers += [(6, self._driver_strike), (2, self._lose_driver), (1, self._return_driver), (1, self._damage)]
        weights = [weight for weight, _ in makers]
        return self._random.choices([make for _, make in makers], weights)[0]()

    def _time(self) -> AnyStep:
        if self._random.random() < 0.5:
            return Turn(turns=self._random.randint(1, 4))
        return Pass(seconds=self._random.choice((0.01, 0.3, 0.5, 1.0, 3.0, 20.0, 130.0)))

    def _short_time(self) -> AnyStep:
        return self._random.choice((Turn(turns=2), Turn(turns=5), Pass(seconds=0.01), Pass(seconds=0.3)))

    # -- pods and objects ----------------------------------------------------------------------------------------
    def _put_pod(self) -> AnyStep:
        name = self._random.choice(PODS)
        generation = self._random.choice(("", "", "", "-2"))
        volumes = tuple(self._volume(each) for each in self._volume_names())
        wish = PodWish(
            name=name,
            uid=f"uid-{name}{generation}",
            volumes=volumes,
            label=f"l{self._next()}",
            # A pod's group never changes while it keeps its UID, as for the kubelet.
            fs_group=2000 if name in "bc" else None,
        )
        return self._put_again(wish)

    def _put_again(self, wish: PodWish) -> AnyStep:
        self._wishes[wish.name] = wish
        self._pods[wish.name] = [volume.name for volume in wish.volumes]
        return PutPod(pod=wish)

    def _some_pod(self) -> str:
        return self._random.choice(sorted(self._pods) or PODS)

    def _some_volume(self, pod: str, among: tuple[str, ...]) -> str:
        return self._random.choice([name for name in self._pods.get(pod, ()) if name in among] or among)

    def _remove_pod(self) -> AnyStep:
        pod = self._some_pod()
        self._pods.pop(pod, None)
        return RemovePod(pod=pod)

    def _relabel(self) -> AnyStep:
        return RelabelPod(pod=self._some_pod(), label=f"l{self._next()}")

    def _put_volume(self) -> AnyStep:
        pod = self._some_pod()
        volume = self._volume(self._any_volume())
        self._pods.setdefault(pod, []).append(volume.name)
        return PutVolume(pod=pod, volume=volume)

    def _drop_volume(self) -> AnyStep:
        pod = self._some_pod()
        return DropVolume(pod=pod, volume=self._some_volume(pod, (*OWN, *CLAIMED, *INLINES)))

    def _put_object(self) -> AnyStep:
        kind, name = self._random.choice(OBJECTS)
        return PutObject(kind=kind, name=name, data=self._data())

    def _delete_object(self) -> AnyStep:
        kind, name = self._random.choice(OBJECTS)
        return DeleteObject(kind=kind, name=name)

    def _put_claim(self) -> AnyStep:
        disk = self._random.choice(self._disks)
        if self._random.random() < 0.2:
            self._generations[disk] = self._generations.get(disk, 0) + 1
        return PutClaim(disk=disk, generation=self._generations.get(disk, 0), size=self._random.randint(1, 3))

    def _delete_claim(self) -> AnyStep:
        step = DeleteClaim if self._random.random() < 0.7 else DeleteDisk
        return step(disk=self._random.choice(self._disks))

    # -- around the manager --------------------------------------------------------------------------------------
    def _wait(self) -> AnyStep:
        return WaitForPod(pod=self._some_pod(), timeout=self._random.choice((0.5, 5.0, 60.0)))

    def _write_file(self) -> AnyStep:
        pod = self._some_pod()
        volume = self._some_volume(pod, WRITABLE)
        number = self._next()
        return WriteFile(pod=pod, volume=volume, file=f"f{number}", text=f"data {number}")

    def _obstruct(self) -> AnyStep:
        pod = self._some_pod()
        if self._random.random() < 0.5:
            return HoldOpen(pod=pod, volume=self._some_volume(pod, MEMORIES))
        return MountForeign(pod=pod, volume=self._some_volume(pod, DIRECTORIES + MEMORIES))

    def _unmount_by_hand(self) -> AnyStep:
        pod = self._some_pod()
        return UnmountByHand(pod=pod, volume=self._some_volume(pod, (*MEMORIES, *CLAIMED, *INLINES)))

    def _limit_disk(self) -> AnyStep:
        return LimitDisk(pages=self._random.choice((None, 0, 1, 3)))

    def _resize(self) -> AnyStep:
        return Resize(pod=self._some_pod(), volume=INLINES[0], size=self._random.randint(1, 9))

    def _run_containers(self) -> AnyStep:
        return RunContainers(pod=self._some_pod())

    def _end_containers(self) -> AnyStep:
        return EndContainers(pod=self._random.choice(PODS))

    def _jump_clock(self) -> AnyStep:
        return JumpClock(seconds=self._random.choice((-3600.0, -5.0, 5.0, 1e6)))

    # -- faults and ends -----------------------------------------------------------------------------------------
    def _strike(self) -> AnyStep:
        return Strike(
            fault=self._random.choice(
                ("refuse", "busy", "silent", "silent", "lost", "late", "hang", "slow", "full", "broken", "broken")
            ),
            skip=self._random.choice((0, 0, 1, 2, 4)),
            seconds=self._random.choice((0.2, 2.0, 70.0)),
            call=self._random.choice((0, 1, 2, 3, 5, 8)),
        )

    def _driver_strike(self) -> AnyStep:
        return DriverStrike(
            answer=self._random.choice(
                ("refuse", "refuse", "not yet", "slow", "done", "undone", "late", "hang", "die")
            ),
            verb=self._random.choice(
                ("", "", "attach", "stage", "publish", "unpublish", "unstage", "detach", "expand")
            ),
            skip=self._random.choice((0, 0, 0, 1, 2)),
            seconds=self._random.choice((0.2, 2.0, 70.0)),
        )

    def _some_driver(self) -> str:
        return DISKS[self._random.choice(self._disks)].driver

    def _lose_driver(self) -> AnyStep:
        return LoseDriver(driver=self._some_driver())

    def _return_driver(self) -> AnyStep:
        return ReturnDriver(driver=self._some_driver())

    def _damage(self) -> AnyStep:
        return DamageRecord(
            how=self._random.choice(("cut", "empty", "garbled", "returned", "returned")),
            which=self._random.randrange(4),
        )

    def _break_reads(self) -> AnyStep:
        return BreakReads(skip=self._random.choice((0, 1, 2, 3, 5, 8)), reads=self._random.choice((1, 1, 2)))

    def _lost(self) -> tuple[str, ...]:
        if self._random.random() < 0.6:
            return ()
        pod = self._some_pod()
        self._pods.pop(pod, None)
        return (pod,)

    def _delays(self) -> tuple[float, float]:
        return self._random.choice((0.0, 0.0, 0.1, 2.0)), self._random.choice((0.0, 0.0, 1.0, 30.0))

    def _crash(self) -> AnyStep:
        told, heard = self._delays()
        return Crash(
            skip=self._random.choice((0, 0, 0, 1, 1, 2, 3, 4, 5, 8, 13)),
            when=self._random.choice(("before", "before", "during", "after", "after")),
            lost=self._lost(),
            told_after=told,
            heard_after=heard,
        )

    def _end(self) -> AnyStep:
        told, heard = self._delays()
        if self._random.random() < 0.6:
            return Restart(lost=self._lost(), told_after=told, heard_after=heard)
        return Reboot(lost=self._lost(), told_after=told, heard_after=heard)
