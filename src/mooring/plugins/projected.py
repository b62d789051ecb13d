"""projected: files from several sources in one volume."""

from __future__ import annotations

from mooring.errors import MooringError, NotYet, Refused
from mooring.host.atomic_writer import PayloadFile
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import ProjectedVolumeSource, Volume, VolumeProjection
from mooring.plugins.content import ContentMounter, default_mode
from mooring.plugins.downward_api import downward_files
from mooring.plugins.interface import Attributes, ObjectRef, Offer, PluginContext, Setup
from mooring.plugins.payload import Payload, config_map_data, files_of, secret_data
from mooring.world.names import PluginName
from mooring.world.spec import VolumeSpec

NAME = PluginName("kubernetes.io/projected")


class ProjectedPlugin:
    """The projected volume type. Tokens, trust bundles and pod certificates are refused with their reason."""

    name = NAME

    def __init__(self, context: PluginContext) -> None:
        self._objects = context.objects
        self._node = context.node
        mounter = ContentMounter(context, NAME, self._collect, memory=True)
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
        return tuple(found)

    def reconstruct(self, volume_name: str) -> VolumeSpec:
        return VolumeSpec(volume=Volume(name=volume_name, projected=ProjectedVolumeSource()))

    def _collect(self, request: Setup) -> Payload:
        """All sources in order; later ones win. All are tried, so that one message tells everything that is wrong."""
        source = _source(request.spec)
        mode = default_mode(source.default_mode)
        payload: dict[str, PayloadFile] = {}
        problems: list[MooringError] = []
        for projection in source.sources:
            try:
                payload.update(self._project(request.pod, projection, mode, source.default_user))
            except MooringError as error:
                problems.append(error)
        if problems:
            raise _together(request.spec.name, problems)
        return payload

    def _project(self, pod: Pod, projection: VolumeProjection, mode: int, user: int | None) -> Payload:
        namespace = pod.metadata.namespace
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


def _together(volume: str, problems: list[MooringError]) -> MooringError:
    """One error for all: a wait if each of them is one, for then an event ends it."""
    kind = NotYet if all(isinstance(problem, NotYet) for problem in problems) else Refused
    why = "; ".join(f"{problem.what}: {problem.why}" for problem in problems)
    return kind(f"cannot set up volume {volume!r}", why=why, next_step=problems[0].next_step)


def _not_served(projection: VolumeProjection) -> Refused:
    if projection.service_account_token is not None:
        what, path = "a service account token", projection.service_account_token.path
    elif projection.cluster_trust_bundle is not None:
        what, path = "a cluster trust bundle", projection.cluster_trust_bundle.path
    elif projection.pod_certificate is not None:
        what, path = "a pod certificate", projection.pod_certificate.signer_name
    else:
        return Refused("cannot project a source", why="it names none of configMap, secret and downwardAPI")
    return Refused(
        f"cannot project {what} ({path!r})",
        why="this version of mooring has nobody to issue it",
        next_step="Take the source out of the volume",
    )


def _source(spec: VolumeSpec) -> ProjectedVolumeSource:
    assert spec.volume is not None
    assert spec.volume.projected is not None
    return spec.volume.projected
