"""What callers may have done on a running instance: apply, delete, wait and take everything down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.daemon.instance import Instance
from mooring.daemon.node_facts import node_name
from mooring.errors import InvalidInput, MooringError
from mooring.kube.api import ApiError, NotFound
from mooring.kube.codec import Manifest, read_manifests
from mooring.kube.defaults import apply_defaults
from mooring.kube.objects.kinds import POD, kind_of
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.objects.pod import Pod
from mooring.kube.validation import validate_update
from mooring.manager.waits import NotMounted, StillMounted
from mooring.world.names import PodUid

Row = dict[str, Any]
APPLIED = "apply"
"""The origin of objects that came by `mooring apply`: no manifest file takes them away."""


class InstanceControl:
    """Carries out what the HTTP API is asked for."""

    def __init__(self, instance: Instance, stop: Callable[[], None]) -> None:
        self._instance = instance
        self._stop = stop

    def ready(self) -> bool:
        return self._instance.manager.gates.sources_heard

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
        raise NotFound(
            f"cannot find pod {name!r}",
            why="no manifest on this node has it",
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
    async def apply(self, text: bytes, origin: str) -> Row:
        """Store the objects of a manifest; all of them or, when something is wrong, none."""
        objects = [apply_defaults(m.object, node_name=self._node_name) for m in _usable(text, origin)]
        for obj in objects:
            await self._check_update(obj, origin)
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

    async def _check_update(self, obj: KubernetesObject, origin: str) -> None:
        try:
            current = await self._instance.store.get(kind_of(obj), obj.metadata.namespace, obj.metadata.name)
        except NotFound:
            return
        problems = validate_update(current, obj)
        if problems:
            what = f"cannot change {obj.kind} {obj.key}"
            raise InvalidInput(what, why=problems[0].why, next_step=problems[0].next_step, place=origin)

    async def delete(self, text: bytes, origin: str) -> Row:
        """Delete the objects that a manifest names; those that are not there are told apart."""
        deleted, missing = [], []
        for manifest in _usable(text, origin):
            obj = apply_defaults(manifest.object, node_name=self._node_name)
            shown = _shown((obj.kind, obj.metadata.namespace, obj.metadata.name))
            try:
                await self._instance.store.delete(kind_of(obj), obj.metadata.namespace, obj.metadata.name)
                deleted.append(shown)
            except NotFound:
                missing.append(shown)
        return {"deleted": deleted, "missing": missing}

    @property
    def _node_name(self) -> str:
        return node_name(self._instance.settings)

    # -- waiting and going down ----------------------------------------------------------------------------------
    async def wait(self, pod: str, wanted: str, timeout: float) -> Row:
        """Wait until a pod's volumes are mounted or unmounted; says why if they are not."""
        if wanted not in ("mounted", "unmounted"):
            raise InvalidInput(f"cannot wait for {wanted!r}", why="it is neither mounted nor unmounted")
        await self._instance.pods.heard.wait()
        if wanted == "unmounted":
            return await self._wait_unmounted(pod, timeout)
        found = self.find_pod(pod)
        try:
            await self._instance.manager.wait_for_attach_and_mount(found, timeout=timeout, fail_fast=False)
        except NotMounted:
            return {"done": False, **self._instance.status.explain(found)}
        return {"done": True, **self._instance.status.explain(found)}

    async def _wait_unmounted(self, pod: str, timeout: float) -> Row:
        try:
            uid = self.former_pod(pod)
        except ApiError:
            return {"done": True, "pod": pod, "volumes": []}  # never heard of: nothing of it is mounted
        try:
            await self._instance.manager.wait_for_uid_unmount(PodUid(uid), timeout=timeout)
        except StillMounted as error:
            return {"done": False, "pod": pod, "cause": str(error), "volumes": error.volumes}
        return {"done": True, "pod": pod, "volumes": []}

    async def down(self, timeout: float) -> Row:
        """Unmount everything, remove the pods' directories, and stop. With something left, go on running."""
        instance = self._instance
        instance.states.draining = True
        instance.manager.sources_heard()
        for pod in instance.manager.pods:
            instance.manager.pod_state_changed(PodUid(pod.metadata.uid))
        try:
            await instance.manager.wait_for_nothing_left(timeout=timeout)
        except (MooringError, TimeoutError):
            left = [row for row in instance.status.volumes() if row["path"] is not None]
            return {"done": False, "left": left}
        self._stop()
        return {"done": True, "left": []}


def _default_first(pod: Pod) -> tuple[bool, str]:
    return (pod.metadata.namespace != "default", pod.key)


def _usable(text: bytes, origin: str) -> tuple[Manifest, ...]:
    """The manifests of a text, or an error with every problem it has."""
    file = read_manifests(text, origin=origin)
    if file.usable:
        return file.objects
    first = file.problems[0]
    more = "".join(f"\n{problem}" for problem in file.problems[1:])
    raise InvalidInput(first.what, why=first.why, next_step=(first.next_step + more).strip(), place=first.place)


def _shown(key: tuple[str, str, str]) -> str:
    kind, namespace, name = key
    return f"{kind.lower()}/{namespace + '/' if namespace else ''}{name}"
