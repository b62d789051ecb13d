"""Keeps claims and volumes bound and protected: the binder on the engine, fed by informers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from mooring.controllers.binder import Binder, claim_key, volume_key
from mooring.controllers.binding import Decision, Surroundings
from mooring.controllers.protection import keeps_claim
from mooring.engine.pending import Backoff, PendingOperations
from mooring.engine.reconciler import Reconciler
from mooring.errors import MooringError
from mooring.kube.api import Api, ListOptions
from mooring.kube.delta_fifo import Tombstone
from mooring.kube.indexer import Indexer
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.listener import Handler
from mooring.kube.objects.kinds import CLAIM, PERSISTENT_VOLUME, POD, STORAGE_CLASS, ObjectT
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeClaim

PODS_BY_CLAIM = "claim"
"""Index of pods by the claims they use, as `namespace/name`."""


def claims_of(pod: Pod) -> Sequence[str]:
    """The claims that a pod's volumes use, those of ephemeral volumes included."""
    found = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            found.append(f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}")
        elif volume.ephemeral is not None:
            found.append(f"{pod.metadata.namespace}/{pod.metadata.name}-{volume.name}")
    return found


class _Cached(Mapping[str, ObjectT]):
    """An informer's cache as a mapping by key."""

    def __init__(self, indexer: Indexer[ObjectT]) -> None:
        self._indexer = indexer

    def __getitem__(self, key: str) -> ObjectT:
        found = self._indexer.get_by_key(key)
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._indexer.list_keys())

    def __len__(self) -> int:
        return len(self._indexer)


class ClaimsController:
    """Binds and protects. `is_held` says whether something of a claim's volume is or may be on this node.

    With `scheduled`, somebody else chooses volumes for claims that wait for their first consumer, as the scheduler of
    a cluster does: those are bound only to volumes that name them, and pods without a node use nothing yet. Who makes
    volumes for a class is asked for them there.
    """

    def __init__(
        self,
        api: Api,
        factory: SharedInformerFactory,
        *,
        is_held: Callable[[PersistentVolumeClaim], bool],
        fits_node: Callable[[PersistentVolume], bool],
        now: Callable[[], str],
        tell: Callable[[PersistentVolumeClaim, str, str], None],
        backoff: Backoff,
        resync_interval: float,
        scheduled: bool = False,
    ) -> None:
        self._api, self._factory = api, factory
        self._scheduled = scheduled
        self._is_held = is_held
        self._claims = factory.informer(CLAIM)
        self._volumes = factory.informer(PERSISTENT_VOLUME)
        self._classes = factory.informer(STORAGE_CLASS)
        self._pods = factory.informer(POD)
        self._pods.add_indexers({PODS_BY_CLAIM: claims_of})
        self._around = Surroundings(
            volumes=_Cached(self._volumes.indexer),
            claims=_Cached(self._claims.indexer),
            classes=_Cached(self._classes.indexer),
            is_used=self._is_used,
            fits_node=fits_node,
            has_provisioners=scheduled,
        )
        binder = Binder(api, self._around, is_kept=self._is_kept, now=now, tell=tell)
        self._reconciler: Reconciler[Decision, MooringError | None] = Reconciler(
            binder, PendingOperations(backoff), limit=1, resync_interval=resync_interval
        )

    async def run(self) -> None:
        """Look at whatever changes, once the caches know all. One write at a time: bindings depend on each other."""
        await self._factory.wait_for_cache_sync()
        self._claims.add_event_handler(
            Handler(
                on_add=lambda claim, is_initial: self._claim_changed(claim),
                on_update=lambda old, new: self._claim_changed(new),
                on_delete=lambda claim: self._claim_changed(claim.object if isinstance(claim, Tombstone) else claim),
            )
        )
        self._volumes.add_event_handler(
            Handler(
                on_add=lambda volume, is_initial: self._volume_changed(volume),
                on_update=lambda old, new: self._volume_changed(new),
                on_delete=lambda volume: self._volume_changed(
                    volume.object if isinstance(volume, Tombstone) else volume
                ),
            )
        )
        self._classes.add_event_handler(
            Handler(
                on_add=lambda each, is_initial: self._touch_claims(),
                on_update=lambda old, new: self._touch_claims(),
                on_delete=lambda each: self._touch_claims(),
            )
        )
        self._pods.add_event_handler(
            Handler(
                on_add=lambda pod, is_initial: self._pod_changed(pod),
                on_update=lambda old, new: self._pod_changed(new),
                on_delete=lambda pod: self._pod_changed(pod.object if isinstance(pod, Tombstone) else pod),
            )
        )
        await self._reconciler.run()

    def volume_left(self, claim: str) -> None:
        """Something of a claim's volume went from this node: it may be free to go now."""
        self._reconciler.touch(claim_key(claim))

    def _is_used(self, claim: PersistentVolumeClaim) -> bool:
        if self._scheduled and claim.metadata.deletion_timestamp is None:
            return False  # asked for one that is not deleted, this only decides whether a consumer has come
        return self._is_wanted(claim, self._pods.indexer.by_index(PODS_BY_CLAIM, claim.key)) or self._is_held(claim)

    def _is_wanted(self, claim: PersistentVolumeClaim, pods: Iterable[Pod]) -> bool:
        return any(keeps_claim(pod, claim) if self._scheduled else claim.key in claims_of(pod) for pod in pods)

    async def _is_kept(self, claim: PersistentVolumeClaim) -> bool:
        pods = await self._api.list(POD, ListOptions(namespace=claim.metadata.namespace))
        # A pod that cannot be read may be the one that wants it.
        return bool(pods.unreadable) or self._is_wanted(claim, pods.items)

    def _claim_changed(self, claim: PersistentVolumeClaim) -> None:
        self._reconciler.resume(claim_key(claim.key))
        for volume in self._volumes.indexer.list():
            reference = volume.spec.claim_ref
            if reference is not None and f"{reference.namespace}/{reference.name}" == claim.key:
                self._reconciler.touch(volume_key(volume.metadata.name))

    def _volume_changed(self, volume: PersistentVolume) -> None:
        self._reconciler.resume(volume_key(volume.metadata.name))
        self._touch_claims()

    def _touch_claims(self) -> None:
        """Any change of volumes or classes may suit any claim that is not bound."""
        for claim in self._claims.indexer.list():
            if claim.status.phase != "Lost":
                self._reconciler.resume(claim_key(claim.key))

    def _pod_changed(self, pod: Pod) -> None:
        for claim in claims_of(pod):
            self._reconciler.touch(claim_key(claim))
