"""The populator: from pods and the objects they name to the desired state of the world."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from mooring.errors import MooringError, Refused
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import Volume
from mooring.manager.claims import Claims, build_spec, claim_references, growth_for
from mooring.manager.pods import PodManager, PodStates
from mooring.manager.volume_labels import Conflict, VolumeLabels
from mooring.plugins.interface import ObjectRef
from mooring.plugins.manager import VolumePluginManager, unique_volume_name
from mooring.world.changes import Listener, ProblemArose
from mooring.world.desired import DesiredMount, DesiredStateOfWorld, DesiredVolume, Problem
from mooring.world.growth import NO_GROWTH
from mooring.world.names import PodUid, VolumeName
from mooring.world.pod_facts import VolumeUse, size_limit, volume_use

Content = tuple[PodUid, VolumeName]
T = TypeVar("T")


class DesiredStateOfWorldPopulator:
    """Works out what each pod wants, whenever the pod or an object it depends on changes.

    A volume that cannot be worked out is a problem kept with the pod; what the pod wanted before stays wanted.
    """

    def __init__(
        self,
        desired: DesiredStateOfWorld,
        plugins: VolumePluginManager,
        claims: Claims,
        pods: PodManager,
        states: PodStates,
        labels: VolumeLabels,
        *,
        clock: Callable[[], float],
        resume: Callable[[VolumeName], None],
        worked_out: Callable[[PodUid], None],
        tell: Listener,
    ) -> None:
        self._desired = desired
        self._plugins = plugins
        self._claims = claims
        self._pods = pods
        self._states = states
        self._labels = labels
        self._clock = clock
        self._resume = resume
        self._worked_out = worked_out
        self._tell = tell
        self.sources_heard = False
        self._claimants: dict[ObjectRef, dict[PodUid, None]] = {}
        self._contents: dict[ObjectRef, dict[Content, None]] = {}
        self._references: dict[PodUid, list[tuple[ObjectRef, VolumeName | None]]] = {}  # None: as a claimant

    # -- events --------------------------------------------------------------------------------------------------
    def pod_changed(self, uid: PodUid) -> None:
        """Work a pod out again, or let go of it when its containers have gone."""
        pod = self._pods.get(uid)
        if self._states.runtime_removed(uid):
            self._let_go(uid)
        elif pod is not None and not (self.sources_heard and self._gains_nothing(uid)):
            self._process(uid, pod)
        self._worked_out(uid)
        self.look_at_kept_out()

    def look_at_kept_out(self) -> None:
        """Work out again the pods that were kept from a volume by a label that it has no longer."""
        if self.sources_heard:
            for uid in self._labels.free_again():
                self.pod_changed(uid)

    def _gains_nothing(self, uid: PodUid) -> bool:
        """A pod that starts no container any more keeps what it has. Before all sources were heard it may gain:

        after a restart its running containers may be using volumes that nobody has asked for yet.
        """
        return self._states.containers_terminating(uid)

    def object_changed(self, ref: ObjectRef) -> None:
        """An object was added, changed or removed: look at just the volumes that depend on it."""
        for uid in list(self._claimants.get(ref, ())):
            self.pod_changed(uid)
        any_of_kind = replace(ref, name="")
        for uid, name in {**self._contents.get(ref, {}), **self._contents.get(any_of_kind, {})}:
            if self._needs_no_attaching_now(uid, name):
                self.pod_changed(uid)
            self._desired.refresh(uid, name)
            self._resume(name)

    def _needs_no_attaching_now(self, uid: PodUid, name: VolumeName) -> bool:
        """Whether a volume that waits to be attached turns out not to need it."""
        volume, mount = self._desired.volumes.get(name), self._desired.mount(uid, name)
        if volume is None or mount is None or not volume.attachable:
            return False
        try:
            return not self._plugins.find_by_name(volume.plugin).offer(mount.spec).attachable
        except Refused:  # its plugin has gone, and says when it is back
            return False

    def refresh_pod(self, uid: PodUid) -> None:
        """Look again at all volumes of a pod whose content can change."""
        for name in dict.fromkeys(self._desired.names_for_pod(uid).values()):
            if self._desired.volumes[name].refreshes:
                self._desired.refresh(uid, name)

    def references(self, pod: Pod) -> set[ObjectRef]:
        """Every object that a pod's volumes depend on, as far as can be told now. Nothing changes by it."""
        use = volume_use(pod)
        found: set[ObjectRef] = set()
        for volume in pod.spec.volumes:
            if volume.name in use.names:
                found.update(claim_references(pod, volume, self._claims))
                with contextlib.suppress(MooringError, ValueError):  # a problem, once the pod is worked out
                    spec = build_spec(pod, volume, use, self._claims)
                    found.update(self._plugins.find_by_spec(spec).references(spec, pod))
        return found

    def is_empty(self) -> bool:
        return not (self._claimants or self._contents or self._references) and self._labels.is_empty()

    # -- working a pod out ---------------------------------------------------------------------------------------
    def _process(self, uid: PodUid, pod: Pod) -> None:
        use = volume_use(pod)
        wanted: set[VolumeName] = set()
        self._drop_references(uid)
        for volume in pod.spec.volumes:
            if volume.name not in use.names:
                continue
            self._refer(uid, claim_references(pod, volume, self._claims))
            try:
                wanted.add(self._want(uid, pod, volume, use))
            except (MooringError, ValueError) as error:
                self._note_problem(uid, pod, volume.name, error)
            else:
                self._desired.clear_problem(uid, volume.name)
        self._drop_surplus(uid, pod, use, wanted)

    def _want(self, uid: PodUid, pod: Pod, volume: Volume, use: VolumeUse) -> VolumeName:
        spec = build_spec(pod, volume, use, self._claims)
        plugin = self._plugins.find_by_spec(spec)
        offer = plugin.offer(spec)
        name = unique_volume_name(plugin, spec, uid)
        wish = DesiredVolume(
            name=name,
            plugin=plugin.name,
            attachable=offer.attachable,
            stageable=offer.stager is not None,
            refreshes=offer.refreshes,
        )
        mount = DesiredMount(
            pod=pod,
            spec=spec,
            outer_names=(volume.name,),
            requested_at=self._clock(),
            size_limit=size_limit(pod, volume),
            growth=growth_for(pod, volume, spec, self._claims) if offer.expander is not None else NO_GROWTH,
        )
        if self._labels.in_use:
            wish = self._labels.labelled(wish, mount, supported=offer.takes_labels, at_start=not self.sources_heard)
        before = self._desired.mount(uid, name)
        self._desired.add(wish, uid, mount)
        if before is not None and before.spec != spec:
            self._resume(name)  # what failed so far may work now
        for ref in plugin.references(spec, pod):
            self._contents.setdefault(ref, {})[uid, name] = None
            self._references.setdefault(uid, []).append((ref, name))
        return name

    def _note_problem(self, uid: PodUid, pod: Pod, volume: str, error: MooringError | ValueError) -> None:
        if isinstance(error, MooringError):
            doubt = not isinstance(error, Conflict)
            problem = Problem(what=error.what, why=error.why, next_step=error.next_step, leaves_doubt=doubt)
        else:
            problem = Problem(what=f"cannot use volume {volume!r}", why=str(error))
        if self._desired.problems(uid).get(volume) != problem:
            self._desired.set_problem(uid, volume, problem)
            self._tell(ProblemArose(pod=pod, volume=volume, why=str(problem)))

    def _drop_surplus(self, uid: PodUid, pod: Pod, use: VolumeUse, wanted: set[VolumeName]) -> None:
        """Drop wishes that the pod's spec no longer has. A volume with a problem keeps the wish it had."""
        used = {volume.name for volume in pod.spec.volumes} & use.names
        for outer in [outer for outer in self._desired.problems(uid) if outer not in used]:
            self._desired.clear_problem(uid, outer)
        doubtful = self._desired.problems(uid).keys()
        for outer, name in list(self._desired.names_for_pod(uid).items()):
            if outer in doubtful:
                continue
            if name not in wanted:
                self._desired.remove(uid, name)
            elif outer not in used:
                self._desired.drop_name(uid, outer)

    def _let_go(self, uid: PodUid) -> None:
        self._desired.forget_pod(uid)
        self._drop_references(uid)

    # -- who depends on what -------------------------------------------------------------------------------------
    def _refer(self, uid: PodUid, refs: tuple[ObjectRef, ...]) -> None:
        for ref in refs:
            self._claimants.setdefault(ref, {})[uid] = None
            self._references.setdefault(uid, []).append((ref, None))

    def _drop_references(self, uid: PodUid) -> None:
        self._labels.forget(uid)
        for ref, name in self._references.pop(uid, ()):
            if name is None:
                _discard(self._claimants, ref, uid)
            else:
                _discard(self._contents, ref, (uid, name))


def _discard(index: dict[ObjectRef, dict[T, None]], ref: ObjectRef, member: T) -> None:
    """Take a member out of an index; an empty entry goes with it."""
    members = index.get(ref)
    if members is not None:
        members.pop(member, None)
        if not members:
            del index[ref]
