"""The objects that a node of a cluster may read, as it needs them: single ones by name, and a few kinds as a whole."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from mooring.errors import NotYet
from mooring.kube.api import Reader
from mooring.kube.indexer import Indexer
from mooring.kube.informer import SharedIndexInformer
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.object_tracking import Fetch, ObjectKey, Strategy, Watch
from mooring.kube.objects.certificates import ClusterTrustBundle
from mooring.kube.objects.kinds import (
    CLAIM,
    CONFIG_MAP,
    CSI_DRIVER,
    NODE,
    PERSISTENT_VOLUME,
    SECRET,
    VOLUME_ATTACHMENT,
    Kind,
    ObjectT,
)
from mooring.kube.objects.node import Node
from mooring.kube.objects.pod import ConfigMap, Secret, ServiceAccount
from mooring.kube.objects.storage import CSIDriver, PersistentVolume, PersistentVolumeClaim, VolumeAttachment
from mooring.kube.tracked_objects import TrackedObjects
from mooring.plugins.interface import ObjectRef
from mooring.plugins.trust_bundles import KIND as TRUST_BUNDLE
from mooring.sources.trust_bundles import TrustBundles

SINGLE_KINDS = {kind.name: kind for kind in (CONFIG_MAP, SECRET, CLAIM, PERSISTENT_VOLUME, VOLUME_ATTACHMENT)}
"""Kinds that the node authorizer lets a node read one by one only, by the name that pods have for them."""

_FIRST_LOOK, _LONGEST_LOOK = 0.5, 2.0
"""Seconds between two looks at a claim or volume that something is still to happen to."""
_LONGEST_LOOK_AT_ATTACHMENT = 7.0
_LOOK_WHILE_GROWING = 5.0
_LOOK_AT_CONTENT = 60.0


def strategies(*, watches_content: bool, claim_interval: float) -> Mapping[str, Strategy]:
    """How each kind is followed. Content is watched, or else read when a pod comes and once a minute after that."""
    content: Strategy = Watch() if watches_content else Fetch(again=lambda found, same: _LOOK_AT_CONTENT)
    return {
        CONFIG_MAP.name: content,
        SECRET.name: content,
        CLAIM.name: Fetch(again=partial(_next_look_at_claim, claim_interval)),
        PERSISTENT_VOLUME.name: Fetch(again=partial(_next_look_at_volume, claim_interval)),
        VOLUME_ATTACHMENT.name: Fetch(again=_next_look_at_attachment),
    }


def _soon(same: int, longest: float) -> float:
    return float(min(_FIRST_LOOK * 2.0 ** min(same - 1, 16), longest))


def _next_look_at_claim(settled: float, claim: PersistentVolumeClaim | None, same: int) -> float:
    if claim is None or claim.status.phase != "Bound":
        return _soon(same, _LONGEST_LOOK)
    wanted, has = claim.spec.resources.requests.get("storage"), claim.status.capacity.get("storage")
    return min(_LOOK_WHILE_GROWING, settled) if wanted != has else settled


def _next_look_at_volume(settled: float, volume: PersistentVolume | None, same: int) -> float:
    if volume is None or volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
        return _soon(same, _LONGEST_LOOK)
    return settled


def _next_look_at_attachment(attachment: VolumeAttachment | None, same: int) -> float | None:
    if attachment is not None and attachment.status.attached and attachment.metadata.deletion_timestamp is None:
        return None
    return _soon(same, _LONGEST_LOOK_AT_ATTACHMENT)


class ClusterObjects:
    """Look-ups at once, from what was asked of the API server so far; of what it has not answered yet a `NotYet`.

    Whoever needs single objects says so to `tracked`, with keys from `keys_of`; `changed` is told of each change.
    A node that attaches by itself has `attachments` of its own; else single ones are read.
    """

    def __init__(
        self,
        api: Reader,
        factory: SharedInformerFactory,
        trust_bundles: TrustBundles,
        node_name: str,
        *,
        watches_content: bool = True,
        claim_interval: float = 60.0,
        attachments: SharedIndexInformer[VolumeAttachment] | None = None,
    ) -> None:
        self.changed: Callable[[ObjectKey], None] = lambda key: None
        followed = strategies(watches_content=watches_content, claim_interval=claim_interval)
        self.tracked = TrackedObjects(api, strategies=followed, changed=self._tell)
        self.attached: frozenset[str] = frozenset()  # VolumeAttachments that are there, for the node's status says so
        self.informed: list[SharedIndexInformer[Any]] = [factory.informer(CSI_DRIVER)]
        self._node_name = node_name
        self._nodes = factory.informer(NODE).indexer
        self._csi_drivers = factory.informer(CSI_DRIVER).indexer
        self.trust_bundles = trust_bundles
        self._attachments: Indexer[VolumeAttachment] | None = None
        if attachments is not None:
            self._attachments = attachments.indexer
            self.informed.append(attachments)

    def _tell(self, key: ObjectKey) -> None:
        self.changed(key)

    # -- what to ask for -------------------------------------------------------------------------------------------
    def keys_of(self, references: Iterable[ObjectRef]) -> frozenset[ObjectKey]:
        """The single objects among what a pod's volumes refer to.

        A VolumeAttachment only once it must be there: a node may not even ask for one that is not. The first bundle
        that is named begins the reading of all.
        """
        references = list(references)
        if any(ref.kind == TRUST_BUNDLE for ref in references):
            self.trust_bundles.need()
        return frozenset(
            ObjectKey(SINGLE_KINDS[ref.kind], ref.namespace, ref.name)
            for ref in references
            if ref.kind in SINGLE_KINDS and ref.name and self._may_ask(ref)
        )

    def _may_ask(self, ref: ObjectRef) -> bool:
        return ref.kind != VOLUME_ATTACHMENT.name or (self._attachments is None and ref.name in self.attached)

    def are_known(self, keys: Collection[ObjectKey]) -> bool:
        return all(map(self.tracked.is_known, keys))

    def _find(self, kind: Kind[ObjectT], namespace: str, name: str) -> ObjectT | None:
        key = ObjectKey(kind, namespace, name)
        if not self.tracked.is_known(key):
            error = self.tracked.error(key)
            why = (
                f"the API server does not tell: {error.why or error.what}"
                if error
                else "the API server has not answered yet"
            )
            raise NotYet(f"{key} is not known yet", why=why, next_step="It goes on by itself with the answer")
        return self.tracked.find(kind, namespace, name)

    # -- single objects --------------------------------------------------------------------------------------------
    def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        return self._find(CONFIG_MAP, namespace, name)

    def secret(self, namespace: str, name: str) -> Secret | None:
        return self._find(SECRET, namespace, name)

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        return self._find(CLAIM, namespace, name)

    def persistent_volume(self, name: str) -> PersistentVolume | None:
        return self._find(PERSISTENT_VOLUME, "", name)

    def volume_attachment(self, name: str) -> VolumeAttachment | None:
        if self._attachments is not None:
            return self._attachments.get_by_key(name)
        return self._find(VOLUME_ATTACHMENT, "", name) if name in self.attached else None

    # -- whole kinds -----------------------------------------------------------------------------------------------
    def volume_attachments(self) -> Sequence[VolumeAttachment]:
        return self._attachments.list() if self._attachments is not None else ()

    def csi_driver(self, name: str) -> CSIDriver | None:
        return self._csi_drivers.get_by_key(name)

    def cluster_trust_bundle(self, name: str) -> ClusterTrustBundle | None:
        return self.trust_bundles.get(name)

    def cluster_trust_bundles(self, signer_name: str) -> list[ClusterTrustBundle]:
        return [bundle for bundle in self.trust_bundles.list() if bundle.spec.signer_name == signer_name]

    def claims(self) -> list[PersistentVolumeClaim]:
        """The claims of this node's pods, as far as they are known."""
        found = (self.tracked.get(key) for key in self.tracked if key.kind.name == CLAIM.name)
        return [each for each in found if isinstance(each, PersistentVolumeClaim)]

    def node(self) -> Node | None:
        return self._nodes.get_by_key(self._node_name)

    def service_account(self, namespace: str, name: str) -> ServiceAccount | None:
        """None: a node may not read them, and whoever issues tokens looks them up."""
        return None

    def namespaces_with(self, kind: str, name: str) -> list[str]:
        """None that this node may see."""
        return []
