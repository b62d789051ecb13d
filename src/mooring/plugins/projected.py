"""projected: files from several sources in one volume."""

from __future__ import annotations

import math
from collections.abc import Mapping

from mooring.errors import MooringError, NotYet, Refused
from mooring.host.atomic_writer import PayloadFile
from mooring.kube.defaults import DEFAULT_TOKEN_SECONDS
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import (
    ProjectedVolumeSource,
    ServiceAccountTokenProjection,
    Volume,
    VolumeProjection,
)
from mooring.plugins.content import ContentMounter, default_mode
from mooring.plugins.downward_api import downward_files
from mooring.plugins.interface import (
    Attributes,
    IssuedToken,
    ObjectRef,
    Offer,
    PluginContext,
    Setup,
    TokenRequest,
    refuse_block,
)
from mooring.plugins.payload import Content, Payload, config_map_data, files_of, secret_data
from mooring.plugins.trust_bundles import bundle_reference, trust_anchors
from mooring.world.names import PluginName
from mooring.world.spec import VolumeSpec

NAME = PluginName("kubernetes.io/projected")
DEFAULT_ACCOUNT = "default"

Answers = Mapping[TokenRequest, IssuedToken | MooringError]
"""What became of each token that was asked for."""


class ProjectedPlugin:
    """The projected volume type. Pod certificates are refused with their reason."""

    name = NAME

    def __init__(self, context: PluginContext) -> None:
        self._objects = context.objects
        self._node = context.node
        self._tokens = context.tokens
        gone = self._tokens.forget_pod if self._tokens is not None else None
        mounter = ContentMounter(context, NAME, self._check, memory=True, fetch=self._fetch, torn_down=gone)
        attributes = Attributes(read_only=True, managed=True, relabel=True)
        self._offer = Offer(mounter=mounter, checker=mounter, attributes=attributes, refreshes=True)

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.volume is not None and spec.volume.projected is not None

    def volume_name(self, spec: VolumeSpec) -> str:
        return spec.name

    def offer(self, spec: VolumeSpec) -> Offer:
        return self._offer

    def references(self, spec: VolumeSpec, pod: Pod) -> tuple[ObjectRef, ...]:
        namespace = pod.metadata.namespace
        found: list[ObjectRef] = []
        for source in _source(spec).sources:
            if source.config_map is not None:
                found.append(ObjectRef("ConfigMap", namespace, source.config_map.name))
            if source.secret is not None:
                found.append(ObjectRef("Secret", namespace, source.secret.name))
            if source.service_account_token is not None:
                found.append(ObjectRef("ServiceAccount", namespace, account_name(pod)))
            if source.cluster_trust_bundle is not None:
                found.append(bundle_reference(source.cluster_trust_bundle))
        return tuple(found)

    def reconstruct(self, volume_name: str, *, block: bool = False) -> VolumeSpec:
        if block:
            raise refuse_block(volume_name)
        return VolumeSpec(volume=Volume(name=volume_name, projected=ProjectedVolumeSource()))

    async def _fetch(self, request: Setup) -> Content:
        """Ask for the tokens, then look at all the rest at one moment."""
        answers: dict[TokenRequest, IssuedToken | MooringError] = {}
        for wanted in self._tokens_wanted(request):
            assert self._tokens is not None
            try:
                answers[wanted] = await self._tokens.token(wanted)
            except MooringError as error:
                answers[wanted] = error
        return self._collect(request, answers)

    def _check(self, request: Setup) -> Content:
        answers: dict[TokenRequest, IssuedToken | MooringError] = {}
        for wanted in self._tokens_wanted(request):
            assert self._tokens is not None
            try:
                self._tokens.check(wanted)
                answers[wanted] = IssuedToken(text="", expires_at=math.inf, refresh_at=math.inf)
            except MooringError as error:
                answers[wanted] = error
        return self._collect(request, answers)

    def _tokens_wanted(self, request: Setup) -> list[TokenRequest]:
        if self._tokens is None:
            return []
        sources = (each.service_account_token for each in _source(request.spec).sources)
        return [_token_request(request, source) for source in sources if source is not None]

    def _collect(self, request: Setup, answers: Answers) -> Content:
        """All sources in order; later ones win. All are tried, so that one message tells everything that is wrong."""
        files: dict[str, PayloadFile] = {}
        waits: list[float] = []
        problems: list[MooringError] = []
        for projection in _source(request.spec).sources:
            try:
                content = self._project(request, projection, answers)
            except MooringError as error:
                problems.append(error)
                continue
            files.update(content.files)
            if content.look_again_after is not None:
                waits.append(content.look_again_after)
        if problems:
            raise _together(request.spec.name, problems)
        return Content(files=files, look_again_after=min(waits, default=None))

    def _project(self, request: Setup, projection: VolumeProjection, answers: Answers) -> Content:
        if projection.service_account_token is not None:
            return self._token(request, projection.service_account_token, answers)
        if projection.cluster_trust_bundle is not None:
            bundle = projection.cluster_trust_bundle
            anchors = trust_anchors(self._objects, bundle)
            return Content(files={bundle.path: _credential(request, anchors, bundle.user)})
        return Content(files=self._plain_files(request, projection))

    def _plain_files(self, request: Setup, projection: VolumeProjection) -> Payload:
        pod, source = request.pod, _source(request.spec)
        namespace, mode, user = pod.metadata.namespace, default_mode(source.default_mode), source.default_user
        if projection.config_map is not None:
            part = projection.config_map
            data = config_map_data(self._objects, namespace, part.name, optional=part.optional)
            return files_of("ConfigMap", part.name, data, part.items, mode=mode, user=user, optional=part.optional)
        if projection.secret is not None:
            named = projection.secret
            data = secret_data(self._objects, namespace, named.name, optional=named.optional)
            return files_of("Secret", named.name, data, named.items, mode=mode, user=user, optional=named.optional)
        if projection.downward_api is not None:
            payload, problems = downward_files(pod, projection.downward_api.items, self._node, mode=mode, user=user)
            if problems:
                raise Refused("cannot project the downward API", why="; ".join(problems))
            return payload
        raise _not_served(projection)

    def _token(self, request: Setup, source: ServiceAccountTokenProjection, answers: Answers) -> Content:
        if self._tokens is None:
            raise Refused(
                f"cannot project a service account token ({source.path!r})",
                why="nobody issues tokens here",
                next_step="Take the source out of the volume",
            )
        issued = answers[_token_request(request, source)]
        if isinstance(issued, MooringError):
            raise issued
        rest = max(0.0, issued.refresh_at - self._tokens.now())
        return Content(
            files={source.path: _credential(request, issued.text.encode(), source.user)},
            look_again_after=None if math.isinf(rest) else rest,
        )


def account_name(pod: Pod) -> str:
    """The service account that a pod runs as."""
    return pod.spec.service_account_name or pod.spec.service_account or DEFAULT_ACCOUNT


def _token_request(request: Setup, source: ServiceAccountTokenProjection) -> TokenRequest:
    return TokenRequest(
        namespace=request.pod.metadata.namespace,
        service_account=account_name(request.pod),
        audiences=(source.audience,) if source.audience else (),
        expiration_seconds=source.expiration_seconds or DEFAULT_TOKEN_SECONDS,
        pod_name=request.pod.metadata.name,
        pod_uid=request.uid,
    )


def _credential(request: Setup, data: bytes, own_user: int | None) -> PayloadFile:
    """A file that only those may read who need it, as soon as it is known who they are."""
    source = _source(request.spec)
    user = next((user for user in (own_user, source.default_user, request.fs_user) if user is not None), None)
    private = user is not None or request.fs_group is not None
    return PayloadFile(data=data, mode=0o600 if private else default_mode(source.default_mode), uid=user)


def _together(volume: str, problems: list[MooringError]) -> MooringError:
    """One error for all: a wait if each of them is one, for then an event ends it."""
    kind = NotYet if all(isinstance(problem, NotYet) for problem in problems) else Refused
    why = "; ".join(f"{problem.what}: {problem.why}" for problem in problems)
    return kind(f"cannot set up volume {volume!r}", why=why, next_step=problems[0].next_step)


def _not_served(projection: VolumeProjection) -> Refused:
    if projection.pod_certificate is not None:
        return Refused(
            f"cannot project a pod certificate ({projection.pod_certificate.signer_name!r})",
            why="that needs a Kubernetes API server, where signers answer certificate requests",
            next_step="Take the source out of the volume",
        )
    return Refused("cannot project a source", why="it names no source that mooring knows")


def _source(spec: VolumeSpec) -> ProjectedVolumeSource:
    assert spec.volume is not None
    assert spec.volume.projected is not None
    return spec.volume.projected
