"""A volume plugin that does as it is told: every call is recorded, and every answer can be written beforehand.

It keeps its own idea of what is really attached, staged and mounted, and refuses to play along with what no machine
would survive: a stage without its attachment, an unstage below a mount. Its state outlives the manager that uses
it, as a driver's does.
"""

from __future__ import annotations

import asyncio
import enum
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TypeVar

from mooring.errors import Doubtful, MooringError, NotYet, Refused
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeSpec
from mooring.kube.objects.volumes import FlexVolumeSource
from mooring.plugins.interface import (
    NO_WISHES,
    Attributes,
    Growing,
    ObjectRef,
    Offer,
    PluginContext,
    Setup,
    StageWishes,
    refuse_block,
)
from mooring.world.names import PluginName, PodUid
from mooring.world.spec import VolumeSpec

T = TypeVar("T")


class Step(enum.Enum):
    """What a plugin can be asked to do."""

    ATTACH = "attach"
    STAGE = "stage"
    SET_UP = "set up"
    TEAR_DOWN = "tear down"
    UNSTAGE = "unstage"
    DETACH = "detach"
    RESIZE = "resize"
    EXPAND = "expand"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call that was made, with what it was told."""

    step: Step
    volume: str  # the inner name
    pod: PodUid | None = None
    device_path: str = ""
    stage_path: str = ""
    refresh: bool = False
    reconstructed: bool = False
    fs_group: int | None = None
    size: int = 0
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a call ends: after how long, whether what it asks for happens, and with which error."""

    happens: bool = True
    error: Exception | None = None
    seconds: float = 0.0


OK = Answer()


def refused(why: str = "the script says no") -> Answer:
    return Answer(happens=False, error=Refused("cannot do it", why=why))


def not_yet(why: str = "the script waits for something") -> Answer:
    return Answer(happens=False, error=NotYet("cannot do it yet", why=why))


def doubtful(why: str = "no answer within 120 s", *, happened: bool = False) -> Answer:
    """No answer came; behind the caller's back it happened or did not."""
    return Answer(happens=happened, error=Doubtful("no answer", why=why))


def surprise() -> Answer:
    return Answer(happens=False, error=RuntimeError("the script has a bug"))


@dataclass(frozen=True, slots=True)
class Hang:
    """A call that waits until `release`; `reached` is set once it waits."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        self.released.set()


class Impossible(AssertionError):
    """The manager asked for something that must never be asked for in this state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    attaches: bool = False
    stages: bool = False
    refreshes: bool = False
    resizes: bool = False
    expands: bool = False
    takes_mount_options: bool = False
    takes_labels: bool = False
    relabels: bool = False  # containers may


PLAIN = Abilities()
DEVICE_MOUNTABLE = Abilities(stages=True)
ATTACHABLE = Abilities(attaches=True, stages=True)
REFRESHING = Abilities(refreshes=True)


class ScriptedPlugin:
    """Serves volumes whose flexVolume driver is its name, written in the pod or as a PersistentVolume.

    Volumes with the same `backing` option are the same volume; without it the inner name is the backing.
    """

    def __init__(self, abilities: Abilities = PLAIN, *, name: str = "test/scripted") -> None:
        self.name = PluginName(name)
        self.abilities = abilities
        self.calls: list[Call] = []
        self.attached: set[str] = set()
        self.staged: set[str] = set()
        self.mounted: set[tuple[PodUid, str]] = set()
        self.questions = 0  # how often it was asked whether it supports a volume
        self._context: PluginContext | None = None
        self._answers: defaultdict[tuple[Step, PodUid | None], deque[Answer | Hang]] = defaultdict(deque)
        self._doubts: set[tuple[int, object]] = set()  # things whose last call ended with an error
        self._always: dict[tuple[Step, PodUid | None], Answer] = {}

    def on(self, context: PluginContext) -> ScriptedPlugin:
        """This plugin, on a node; called again for each manager that starts there."""
        self._context = context
        return self

    # -- the script ----------------------------------------------------------------------------------------------
    def script(self, step: Step, *answers: Answer | Hang, pod: PodUid | None = None) -> None:
        """Answer the next calls of a step (for one pod, if given) like this; afterwards they succeed again."""
        self._answers[step, pod].extend(answers)

    def always(self, step: Step, answer: Answer | None, *, pod: PodUid | None = None) -> None:
        """Answer every call of a step (for one pod, if given) like this; None takes that back."""
        if answer is None:
            del self._always[step, pod]
        else:
            self._always[step, pod] = answer

    def hang(self, step: Step, *, pod: PodUid | None = None) -> Hang:
        """Let the next call of a step wait until it is released."""
        waiting = Hang()
        self.script(step, waiting, pod=pod)
        return waiting

    def count(self, step: Step, *, pod: PodUid | None = None) -> int:
        """How often a step was called (for one pod, if given)."""
        return sum(call.step is step and pod in (None, call.pod) for call in self.calls)

    def steps(self) -> list[Step]:
        return [call.step for call in self.calls]

    # -- what plugins are asked ----------------------------------------------------------------------------------
    def supports(self, spec: VolumeSpec) -> bool:
        self.questions += 1
        source = _source(spec)
        return source is not None and source.driver == self.name

    def volume_name(self, spec: VolumeSpec) -> str:
        source = _source(spec)
        return source.options.get("backing", spec.name) if source is not None else spec.name

    def offer(self, spec: VolumeSpec) -> Offer:
        abilities = self.abilities
        return Offer(
            mounter=self,
            stager=self if abilities.stages else None,
            attacher=self if abilities.attaches else None,
            resizer=self if abilities.resizes else None,
            expander=self if abilities.expands else None,
            attributes=Attributes(read_only=spec.read_only, managed=abilities.relabels, relabel=abilities.relabels),
            takes_mount_options=abilities.takes_mount_options,
            takes_labels=abilities.takes_labels,
            refreshes=abilities.refreshes,
        )

    def references(self, spec: VolumeSpec, pod: Pod) -> tuple[ObjectRef, ...]:
        """The ConfigMap that the option `follows` names, in the pod's namespace."""
        source = _source(spec)
        follows = source.options.get("follows") if source is not None else None
        return (ObjectRef("ConfigMap", pod.metadata.namespace, follows),) if follows else ()

    def reconstruct(self, volume_name: str, *, block: bool = False) -> VolumeSpec:
        if block:
            raise refuse_block(volume_name)
        source = FlexVolumeSource(driver=self.name)
        spec = PersistentVolumeSpec(flex_volume=source, volume_mode="Filesystem")
        return VolumeSpec(persistent_volume=PersistentVolume(metadata=ObjectMeta(name=volume_name), spec=spec))

    # -- what plugins do -----------------------------------------------------------------------------------------
    def path(self, uid: PodUid, spec: VolumeSpec) -> str:
        return self._on_node().paths.pod_volume_dir(uid, self.name, spec.name)

    async def attach(self, spec: VolumeSpec) -> str:
        answer = await self._play(Call(step=Step.ATTACH, volume=spec.name))
        self._set_up(self.attached, self.volume_name(spec), answer)
        _end(answer)
        return f"/dev/{self.volume_name(spec)}"

    async def stage(self, spec: VolumeSpec, device_path: str, wishes: StageWishes = NO_WISHES) -> str:
        backing = self.volume_name(spec)
        if self.abilities.attaches and backing not in self.attached:
            raise Impossible(f"stage of {backing!r}, which is not attached")
        answer = await self._play(Call(step=Step.STAGE, volume=spec.name, device_path=device_path, label=wishes.label))
        self._set_up(self.staged, backing, answer)
        _end(answer)
        return f"/stages/{backing}"

    async def set_up(self, request: Setup) -> None:
        backing = self.volume_name(request.spec)
        if self.abilities.stages and backing not in self.staged:
            raise Impossible(f"set-up of {backing!r}, which is not staged")
        call = Call(
            step=Step.SET_UP,
            volume=request.spec.name,
            pod=request.uid,
            device_path=request.device_path,
            stage_path=request.stage_path,
            refresh=request.refresh,
            reconstructed=request.reconstructed,
            fs_group=request.fs_group,
            size=request.size_limit,
            label=request.label,
        )
        answer = await self._play(call)
        if answer.happens:
            self._on_node().host.make_directories(self.path(request.uid, request.spec), 0o777)
        if answer.happens or not request.refresh:
            self._set_up(self.mounted, (request.uid, backing), answer)
        _end(answer)

    async def tear_down(self, uid: PodUid, spec: VolumeSpec) -> None:
        answer = await self._play(Call(step=Step.TEAR_DOWN, volume=spec.name, pod=uid))
        if answer.happens:
            host, path = self._on_node().host, self.path(uid, spec)
            if host.look(path) is not None:
                host.remove_tree(path)
        self._take_down(self.mounted, (uid, self.volume_name(spec)), answer)
        _end(answer)

    async def unstage(self, spec: VolumeSpec, stage_path: str) -> None:
        backing = self.volume_name(spec)
        if any(mounted == backing for _, mounted in self.mounted):
            raise Impossible(f"unstage of {backing!r}, which is mounted")
        answer = await self._play(Call(step=Step.UNSTAGE, volume=spec.name, stage_path=stage_path))
        self._take_down(self.staged, backing, answer)
        _end(answer)

    async def detach(self, spec: VolumeSpec) -> None:
        backing = self.volume_name(spec)
        if backing in self.staged:
            raise Impossible(f"detach of {backing!r}, which is staged")
        answer = await self._play(Call(step=Step.DETACH, volume=spec.name))
        self._take_down(self.attached, backing, answer)
        _end(answer)

    async def resize(self, uid: PodUid, spec: VolumeSpec, size: int) -> None:
        answer = await self._play(Call(step=Step.RESIZE, volume=spec.name, pod=uid, size=size))
        _end(answer)

    async def expand(self, request: Growing) -> None:
        backing = self.volume_name(request.spec)
        if (request.uid, backing) not in self.mounted:
            raise Impossible(f"growth of {backing!r}, which is not mounted")
        call = Call(
            step=Step.EXPAND,
            volume=request.spec.name,
            pod=request.uid,
            device_path=request.device_path,
            stage_path=request.stage_path,
            size=request.size,
        )
        _end(await self._play(call))

    # -- inside --------------------------------------------------------------------------------------------------
    def _on_node(self) -> PluginContext:
        if self._context is None:
            raise MooringError("the scripted plugin is on no node", why="`on` has not been called")
        return self._context

    def _set_up(self, real: set[T], thing: T, answer: Answer) -> None:
        """Let a set-up happen or not. A driver that refuses one has nothing left of what it did not answer before."""
        if answer.happens:
            real.add(thing)
        elif isinstance(answer.error, Refused) and (id(real), thing) in self._doubts:
            real.discard(thing)
        self._note_doubt(real, thing, answer)

    def _take_down(self, real: set[T], thing: T, answer: Answer) -> None:
        if answer.happens:
            real.discard(thing)
        self._note_doubt(real, thing, answer)

    def _note_doubt(self, real: set[T], thing: T, answer: Answer) -> None:
        if answer.error is None:
            self._doubts.discard((id(real), thing))
        else:
            self._doubts.add((id(real), thing))

    async def _play(self, call: Call) -> Answer:
        """Record a call and take its answer, which after a hang is the next one written."""
        self.calls.append(call)
        answer = self._answer(call)
        while isinstance(answer, Hang):
            answer.reached.set()
            await answer.released.wait()
            answer = self._answer(call)
        if answer.seconds:
            await asyncio.sleep(answer.seconds)
        return answer

    def _answer(self, call: Call) -> Answer | Hang:
        for key in ((call.step, call.pod), (call.step, None)):
            written = self._answers.get(key)
            if written:
                return written.popleft()
            if key in self._always:
                return self._always[key]
        return OK


def _source(spec: VolumeSpec) -> FlexVolumeSource | None:
    if spec.persistent_volume is not None:
        return spec.persistent_volume.spec.flex_volume
    return spec.volume.flex_volume if spec.volume is not None else None


def _end(answer: Answer) -> None:
    if answer.error is not None:
        raise answer.error
