"""What callers may have done on a running instance: apply, delete, wait and take everything down."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mooring.daemon.instance import Instance
from mooring.daemon.mistakes import BadManifests
from mooring.daemon.mount_rows import mount_rows
from mooring.daemon.node_facts import node_name
from mooring.daemon.runs import RunControl
from mooring.errors import InvalidInput, MooringError, Refused
from mooring.kube.api import ApiError, NotFound
from mooring.kube.codec import Manifest, read_manifests
from mooring.kube.defaults import apply_defaults
from mooring.kube.objects.kinds import POD, kind_of
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import PersistentVolumeClaim
from mooring.kube.validation import validate_update
from mooring.manager.waits import NotMounted, StillMounted
from mooring.observe.control import OpenId, SentFile
from mooring.observe.usage import Key, VolumeUsage
from mooring.sources.manifest_directory import ORIGIN
from mooring.world.findings import Finding
from mooring.world.leftovers import leftovers
from mooring.world.names import PodUid

Row = dict[str, Any]
APPLIED = "apply"
"""The origin of objects that came by `mooring apply`: no manifest file takes them away."""


class InstanceControl:
    """Carries out what the HTTP API is asked for."""

    def __init__(self, instance: Instance, stop: Callable[[], None]) -> None:
        self._instance = instance
        self._stop = stop
        self._runs = RunControl(instance.paths, instance.manager, instance.states, instance.runs)
        self.openid: OpenId = instance.openid

    def ready(self) -> bool:
        return self._instance.manager.gates.sources_heard

    def claims(self) -> Sequence[PersistentVolumeClaim]:
        return self._instance.claims()

    async def heard(self) -> None:
        await self._instance.pods.known.wait()

    @property
    def _unknown(self) -> str:
        cluster = self._instance.cluster
        return f"none is bound to this node at {cluster}" if cluster else "no manifest on this node has it"

    # -- pods by name --------------------------------------------------------------------------------------------
    def find_pod(self, name: str) -> Pod:
        """A pod by `namespace/name`, or by `name` when only one namespace has it (`default` comes first)."""
        pods = self._instance.manager.pods
        if "/" in name:
            pod = pods.find(name)
            if pod is not None:
                return pod
        else:
            found = sorted((pod for pod in pods if pod.metadata.name == name), key=_default_first)
            if len(found) > 1 and found[0].metadata.namespace != "default":
                where = ", ".join(pod.key for pod in found)
                raise InvalidInput(
                    f"pod {name!r} is not clear", why=f"there are {where}", next_step="Write one of them"
                )
            if found:
                return found[0]
        left = self._instance.runs.left().get(name if "/" in name else f"default/{name}")
        raise NotFound(
            f"cannot find pod {name!r}",
            why=f"it was deleted, and its containers have not ended ({left})" if left else self._unknown,
            next_step="`mooring get pods` lists them",
        )

    def former_pod(self, name: str) -> str:
        try:
            return self.find_pod(name).metadata.uid
        except NotFound:
            key = name if "/" in name else f"default/{name}"
            uids = self._instance.history.pods_named(key)
            if not uids:
                raise
            return uids[-1]

    # -- objects -------------------------------------------------------------------------------------------------
    async def apply(self, files: Sequence[SentFile]) -> Row:
        """Store the objects of manifests in one transaction; when something is wrong with one, none."""
        self._check_own("apply")
        manifests = _usable(files)
        objects = [apply_defaults(manifest.object, node_name=self._node_name) for manifest in manifests]
        for obj, manifest in zip(objects, manifests, strict=True):
            await self._check_update(obj, manifest)
        applied = await self._instance.store.apply_all(put=[(obj, APPLIED) for obj in objects])
        for obj in objects:
            if isinstance(obj, Pod):
                stored = await self._instance.store.get(POD, obj.metadata.namespace, obj.metadata.name)
                await self._instance.pods.until_told(stored)
        return {
            "created": [_shown(key) for key in applied.created],
            "changed": [_shown(key) for key in applied.changed],
            "unchanged": [_shown(key) for key in applied.unchanged],
        }

    def _check_own(self, verb: str) -> None:
        if self._instance.cluster:
            why = f"the objects of this node come from the API server at {self._instance.cluster}"
            raise Refused(f"cannot {verb} objects here", why=why, next_step=f"Use `kubectl {verb}`")

    async def _check_update(self, obj: KubernetesObject, manifest: Manifest) -> None:
        try:
            current = await self._instance.store.get(kind_of(obj), obj.metadata.namespace, obj.metadata.name)
        except NotFound:
            return
        problems = validate_update(current, obj)
        if problems:
            first = problems[0]
            place = f"{manifest.origin}:{manifest.line_of(first.path)}: {'.'.join(map(str, first.path))}"
            what = f"cannot change {obj.kind} {obj.key}"
            raise InvalidInput(what, why=first.why, next_step=first.next_step, place=place)

    async def delete(self, files: Sequence[SentFile]) -> Row:
        """Delete the objects that a manifest names; those that are not there are told apart."""
        self._check_own("delete")
        deleted, missing, written_in = [], [], {}
        for manifest in _usable(files):
            obj = apply_defaults(manifest.object, node_name=self._node_name)
            key = (obj.kind, obj.metadata.namespace, obj.metadata.name)
            origin = self._instance.store.origins().get(key, "")
            try:
                await self._instance.store.delete(kind_of(obj), key[1], key[2])
            except NotFound:
                missing.append(_shown(key))
                continue
            deleted.append(_shown(key))
            if origin.startswith(ORIGIN):
                written_in[_shown(key)] = origin[len(ORIGIN) :]
        return {"deleted": deleted, "missing": missing, "written_in": written_in}

    @property
    def _node_name(self) -> str:
        return node_name(self._instance.settings)

    # -- what containers see -------------------------------------------------------------------------------------
    async def mounts(self, pod: str, *, recursive_read_only: bool) -> list[Row]:
        """What each container of a pod should see; an error that explains why when the pod is not ready."""
        found = self._ready_pod(pod)
        views = await self._instance.manager.get_container_mounts(found, recursive_read_only=recursive_read_only)
        return [row for view in views for row in mount_rows(view)]

    def _ready_pod(self, name: str) -> Pod:
        found = self.find_pod(name)
        verdict = self._instance.status.explain(found)
        if not verdict["ready"]:
            step = next((row["next_step"] for row in verdict["volumes"] if row["cause"] and row["next_step"]), None)
            raise Refused(f"pod {found.key!r} is not ready", why=verdict["cause"], next_step=step or "")
        return found

    # -- runs ----------------------------------------------------------------------------------------------------
    async def begin_run(self, pod: str, body: bytes, client: int) -> Row:
        return await self._runs.begin(self._ready_pod(pod), body, client)

    async def end_run(self, uid: str, run: str) -> Row:
        return await self._runs.end(uid, run)

    # -- waiting and going down ----------------------------------------------------------------------------------
    async def wait(self, pod: str, wanted: str, timeout: float) -> Row:
        """Wait until a pod's volumes are mounted or unmounted; says why if they are not."""
        if wanted not in ("mounted", "unmounted"):
            raise InvalidInput(f"cannot wait for {wanted!r}", why="it is neither mounted nor unmounted")
        if wanted == "unmounted":
            return await self._wait_unmounted(pod, timeout)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        found = await self._awaited(pod, timeout)
        timeout = deadline - loop.time()
        try:
            await self._instance.manager.wait_for_attach_and_mount(found, timeout=timeout, fail_fast=False)
        except NotMounted:
            return {"done": False, **self._instance.status.explain(found)}
        return {"done": True, **self._instance.status.explain(found)}

    async def _awaited(self, pod: str, timeout: float) -> Pod:
        """A pod by name, also one that has yet to come where that may be."""

        def find() -> Pod | None:
            try:
                return self.find_pod(pod)
            except NotFound:
                return None

        if self._instance.await_pod is not None:
            with contextlib.suppress(TimeoutError):
                return await self._instance.await_pod(find, timeout=timeout)
        return self.find_pod(pod)

    async def _wait_unmounted(self, pod: str, timeout: float) -> Row:
        try:
            uid = self.former_pod(pod)
        except ApiError:
            return {"done": True, "pod": pod, "volumes": []}  # never heard of: nothing of it is mounted
        try:
            await self._instance.manager.wait_for_uid_unmount(PodUid(uid), timeout=timeout)
        except StillMounted:
            left = [row for row in self._instance.status.volumes() if row["pod_uid"] == uid and row["path"]]
            wanted = self._instance.manager.pods.get(PodUid(uid)) is not None
            cause = "the pod is still wanted; delete it or its manifest first" if wanted else "it takes longer"
            containers = self._instance.manager.containers_left(PodUid(uid))
            if containers is not None and not wanted:
                cause = f"containers of the pod have not ended ({containers})"
            return {"done": False, "pod": pod, "cause": cause, "volumes": left}
        return {"done": True, "pod": pod, "volumes": []}

    async def usage(self) -> Mapping[Key, VolumeUsage]:
        return await self._instance.usage.measure()

    async def down(self, timeout: float) -> Row:
        """End containers, unmount everything, remove the pods' directories, and stop. With something left, go on."""
        instance = self._instance
        instance.states.draining = True
        instance.manager.sources_heard()
        instance.runs.look_at_all()
        for pod in instance.manager.pods:
            instance.manager.pod_state_changed(PodUid(pod.metadata.uid))
        try:
            async with asyncio.timeout(timeout):
                await instance.runs.until_none(timeout=timeout)
                await instance.manager.wait_for_nothing_left(timeout=timeout)
        except (MooringError, TimeoutError):
            left = [row for row in instance.status.volumes() if row["path"] is not None]
            left += [
                {"pod": None, "volume": None, "state": "uncertain", "reason": each.what, "path": each.where}
                for each in leftovers(instance.manager.actual.volumes.values())
            ]
            return {"done": False, "left": left, "containers": instance.runs.left()}
        self._stop()
        return {"done": True, "left": [], "containers": {}}


def _default_first(pod: Pod) -> tuple[bool, str]:
    return (pod.metadata.namespace != "default", pod.key)


def _usable(files: Sequence[SentFile]) -> list[Manifest]:
    """The manifests of all files, or an error with every problem they have."""
    found: list[Manifest] = []
    mistakes: list[Finding] = []
    for sent in files:
        file = read_manifests(sent.text.encode(), origin=sent.origin, keep_lines=True)
        found.extend(file.objects)
        mistakes.extend(
            Finding(kind="manifest", where=each.place, what=f"{each.what}: {each.why}", next_step=each.next_step)
            for each in file.problems
        )
    if mistakes:
        raise BadManifests(mistakes, "nothing was changed")
    return found


def _shown(key: tuple[str, str, str]) -> str:
    kind, namespace, name = key
    return f"{kind.lower()}/{namespace + '/' if namespace else ''}{name}"
