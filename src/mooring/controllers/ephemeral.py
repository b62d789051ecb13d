"""Makes the claims of ephemeral volumes: each belongs to its pod and lives as long."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from mooring.engine.pending import Backoff, PendingOperations, Slot
from mooring.engine.reconciler import Reconciler
from mooring.errors import MooringError, Refused
from mooring.kube.api import AlreadyExists, Api
from mooring.kube.defaults import apply_defaults
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.listener import Handler
from mooring.kube.objects.kinds import CLAIM, POD
from mooring.kube.objects.meta import ObjectMeta, OwnerReference
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import PersistentVolumeClaim, PersistentVolumeClaimSpec
from mooring.kube.objects.volumes import Volume

_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class MakeClaim:
    """The claim of one volume of a pod is to be made."""

    pod: str  # `namespace/name`
    volume: str


def claim_for(pod: Pod, volume: Volume) -> PersistentVolumeClaim:
    """The claim that an ephemeral volume stands for, owned by the pod."""
    template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
    if template is None:
        why = "it has no volumeClaimTemplate"
        raise Refused(f"cannot make a claim for volume {volume.name!r} of pod {pod.key!r}", why=why)
    try:
        spec = msgspec.convert(template.spec, PersistentVolumeClaimSpec)
    except msgspec.ValidationError as error:
        what = f"cannot make a claim for volume {volume.name!r} of pod {pod.key!r}"
        raise Refused(what, why=f"its volumeClaimTemplate is no claim: {error}") from error
    owner = OwnerReference(
        api_version="v1",
        kind="Pod",
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
    metadata = ObjectMeta(
        name=f"{pod.metadata.name}-{volume.name}",
        namespace=pod.metadata.namespace,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        owner_references=(owner,),
    )
    claim = apply_defaults(PersistentVolumeClaim(metadata=metadata, spec=spec), node_name="")
    # Each claim is a new one: a volume released by the one before must not take it for its own.
    return msgspec.structs.replace(claim, metadata=metadata)


class EphemeralClaims:
    """A subject of the engine, fed by informers: one key for each pod."""

    def __init__(
        self,
        api: Api,
        factory: SharedInformerFactory,
        *,
        tell: Callable[[Pod, str, str], None],
        backoff: Backoff,
        resync_interval: float,
    ) -> None:
        self._api = api
        self._factory = factory
        self._tell = tell  # events: pod, reason, message
        self._pods = factory.informer(POD)
        self._claims = factory.informer(CLAIM)
        self._reconciler: Reconciler[MakeClaim, MooringError | None] = Reconciler(
            self, PendingOperations(backoff), resync_interval=resync_interval
        )

    async def run(self) -> None:
        """Make what is missing whenever a pod comes or a claim goes."""
        await self._factory.wait_for_cache_sync()
        self._pods.add_event_handler(
            Handler(
                on_add=lambda pod, is_initial: self._reconciler.touch(pod.key),
                on_update=lambda old, new: self._reconciler.touch(new.key),
                on_delete=lambda pod: None,
            )
        )
        self._claims.add_event_handler(
            Handler(
                on_add=lambda claim, is_initial: None,
                on_update=lambda old, new: None,
                on_delete=lambda claim: self._touch_all(),
            )
        )
        await self._reconciler.run()

    def _touch_all(self) -> None:
        for key in self.keys():
            self._reconciler.touch(key)

    # -- the subject ---------------------------------------------------------------------------------------------
    def keys(self) -> Iterable[str]:
        return [pod.key for pod in self._pods.indexer.list() if any(_ephemeral(pod))]

    def plan(self, key: str) -> Sequence[MakeClaim]:
        pod = self._pods.indexer.get_by_key(key)
        if pod is None or pod.metadata.deletion_timestamp is not None or pod.status.phase in _ENDED:
            return ()
        return [MakeClaim(key, volume.name) for volume in _ephemeral(pod) if self._is_missing(pod, volume)]

    def _is_missing(self, pod: Pod, volume: Volume) -> bool:
        return self._claims.indexer.get_by_key(f"{pod.key}-{volume.name}") is None

    def slot(self, operation: MakeClaim) -> Slot:
        return Slot(operation.pod, operation.volume)

    def kind(self, operation: MakeClaim) -> str:
        return "make_claim"

    async def execute(self, operation: MakeClaim) -> MooringError | None:
        pod = self._pods.indexer.get_by_key(operation.pod)
        volume = next((each for each in _ephemeral(pod) if each.name == operation.volume), None) if pod else None
        if pod is None or volume is None:
            return None
        try:
            await self._api.create(claim_for(pod, volume))
        except AlreadyExists:
            return None  # the cache will tell, and whoever uses it sees whose it is
        except MooringError as error:
            return error
        return None

    def apply(self, operation: MakeClaim, outcome: MooringError | None) -> bool:
        pod = self._pods.indexer.get_by_key(operation.pod)
        if outcome is not None and pod is not None:
            self._tell(pod, "FailedBinding", str(outcome))
        return outcome is None


def _ephemeral(pod: Pod) -> Iterator[Volume]:
    return (volume for volume in pod.spec.volumes if volume.ephemeral is not None)
