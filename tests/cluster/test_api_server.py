"""The API protocol on a real API server: the conformance suite, who asks, and what a server writes."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from rig.control_plane import SERVER, ControlPlane
from tests.cluster.conftest import kubectl

from mooring.kube import kubeconfig
from mooring.kube.api import (
    Api,
    Conflict,
    ConnectionRefused,
    EventType,
    Forbidden,
    ListOptions,
    Unauthorized,
    WatchEvent,
    WatchOptions,
)
from mooring.kube.api_server import ApiServer
from mooring.kube.objects.kinds import ALL_KINDS, CLUSTER_TRUST_BUNDLE, CONFIG_MAP, CSI_NODE, NODE, POD, SECRET
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import ConfigMap, Namespace
from mooring.testing.conformance.api import ApiConformance

pytestmark = pytest.mark.cluster

T = TypeVar("T")


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[ApiServer]:
    """An administrator's view."""
    async with client(plane.kubeconfig) as made:
        yield made


def client(path: Path) -> ApiServer:
    return ApiServer(kubeconfig.load(str(path)), agent="mooring-test")


class TestApiServer(ApiConformance):
    @pytest.fixture
    async def api(self, plane: ControlPlane) -> AsyncIterator[Api]:
        async with client(plane.kubeconfig) as made:
            yield made


# -- what a server writes ----------------------------------------------------------------------------------------------
LEAST = """
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: without-drivers}
spec: {drivers: []}
---
apiVersion: v1
kind: Node
metadata: {name: least}
---
apiVersion: v1
kind: Pod
metadata: {name: least, namespace: default}
spec:
  nodeName: least
  containers: [{name: main, image: none}]
  volumes: [{name: nothing, projected: {sources: []}}, {name: empty, emptyDir: {}}]
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: least}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], csi: {driver: none.example, volumeHandle: handle}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: least, namespace: default}
spec: {resources: {requests: {storage: 1Gi}}, accessModes: [ReadWriteOnce], storageClassName: ""}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: least}
provisioner: none.example
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: none.example}
spec: {}
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttachment
metadata: {name: least}
spec: {attacher: none.example, nodeName: least, source: {persistentVolumeName: least}}
---
apiVersion: v1
kind: Secret
metadata: {name: least, namespace: default}
---
apiVersion: v1
kind: Event
metadata: {name: least, namespace: default}
involvedObject: {kind: Pod, namespace: default, name: least}
"""


async def test_every_kind_can_be_read_with_as_little_in_it_as_a_server_takes(
    api: ApiServer, plane: ControlPlane
) -> None:
    kubectl(plane, "apply", "-f", "-", given=LEAST)
    for kind in ALL_KINDS:
        if kind is CLUSTER_TRUST_BUNDLE:
            continue  # this release does not serve it unless it is told to
        listed = await api.list(kind)
        assert listed.items, kind
        assert {item.kind for item in listed.items} == {kind.name}
        first = listed.items[0].metadata
        assert (await api.get(kind, first.namespace, first.name)).metadata.uid == first.uid
    assert (await api.get(CSI_NODE, "", "without-drivers")).spec.drivers == ()
    async with api.watch(CSI_NODE, WatchOptions(send_initial_events=True)) as events:
        told = [event async for event in up_to_bookmark(events)]
    assert "without-drivers" in [event.object.metadata.name for event in told if event.object is not None]


async def test_what_the_server_does_not_serve_is_found_out(api: ApiServer) -> None:
    assert await api.served(CONFIG_MAP) == CONFIG_MAP
    assert await api.served(CSI_NODE) == CSI_NODE
    assert await api.served(CLUSTER_TRUST_BUNDLE) is None


async def test_what_is_applied_is_owned_and_taken_from_others_only_by_force(api: ApiServer) -> None:
    name = f"applied-{uuid.uuid4().hex[:8]}"

    def wanted(**data: str) -> ConfigMap:
        return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data)

    assert (await api.apply(wanted(a="1", b="1"), field_manager="one")).data == {"a": "1", "b": "1"}
    assert (await api.apply(wanted(a="1"), field_manager="one")).data == {"a": "1"}, "what is left out goes"
    with pytest.raises(Conflict, match='"one"'):
        await api.apply(wanted(a="2"), field_manager="two")
    assert (await api.apply(wanted(a="2"), field_manager="two", force=True)).data == {"a": "2"}


async def up_to_bookmark(events: AsyncIterator[WatchEvent[T]]) -> AsyncIterator[WatchEvent[T]]:  # type: ignore[type-var]
    async for event in events:
        if event.type is EventType.BOOKMARK:
            return
        yield event


async def test_a_list_of_many_comes_in_pages_and_whole(api: ApiServer) -> None:
    namespace = (await api.create(Namespace(metadata=ObjectMeta(generate_name="many-")))).metadata.name
    names = [f"map-{number:04}" for number in range(1200)]
    await each_of(names, lambda name: api.create(ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace))))
    options = ListOptions(namespace=namespace, limit=500)
    pages = [await api.list(CONFIG_MAP, options)]
    while pages[-1].continue_token:
        pages.append(await api.list(CONFIG_MAP, replace(options, continue_token=pages[-1].continue_token)))
    listed = [item.metadata.name for page in pages for item in page.items if item.metadata.name.startswith("map-")]
    assert listed == names
    assert len(pages) == 3
    whole = await api.list(CONFIG_MAP, ListOptions(namespace=namespace, resource_version="0"))
    assert {item.metadata.name for item in whole.items} >= set(names)


async def each_of(names: Sequence[str], do: Callable[[str], Awaitable[object]]) -> None:
    """Do something for each name, thirty at a time."""
    turns = asyncio.Semaphore(30)

    async def in_turn(name: str) -> None:
        async with turns:
            await do(name)

    async with asyncio.TaskGroup() as tasks:
        for name in names:
            tasks.create_task(in_turn(name))


# -- who asks ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def account(plane: ControlPlane) -> str:
    """A service account that nobody else uses."""
    name = f"account-{uuid.uuid4().hex[:8]}"
    kubectl(plane, "create", "serviceaccount", name)
    return name


async def who_am_i(path: Path) -> str:
    """The user that a server takes us for: it names whom it forbids something."""
    async with client(path) as asking:
        with pytest.raises(Forbidden) as refusal:
            await asking.list(SECRET)
    return refusal.value.why


async def test_a_token_speaks_for_a_service_account(plane: ControlPlane, account: str) -> None:
    token = kubectl(plane, "create", "token", account)
    path = plane.write_kubeconfig("token", {"token": token})
    assert f'"system:serviceaccount:default:{account}"' in await who_am_i(path)


async def test_a_token_file_that_was_replaced_is_read_again_when_the_old_token_is_refused(
    plane: ControlPlane, account: str, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("outdated")
    path = plane.write_kubeconfig("token-file", {"tokenFile": str(file)})
    async with client(path) as asking:
        with pytest.raises(Unauthorized):
            await asking.list(SECRET)
        file.write_text(kubectl(plane, "create", "token", account) + "\n")
        with pytest.raises(Forbidden, match=account):
            await asking.list(SECRET)


async def test_a_program_may_print_a_certificate(plane: ControlPlane, tmp_path: Path) -> None:
    written = kubeconfig.load(str(plane.user_kubeconfig("printed", name="printed")))
    status = {
        "clientCertificateData": written.client_certificate.decode(),
        "clientKeyData": written.client_key.decode(),
    }
    answer = tmp_path / "answer"
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    answer.write_text(json.dumps(credential))
    command = {"apiVersion": "client.authentication.k8s.io/v1", "command": "cat", "args": [str(answer)]}
    path = plane.write_kubeconfig("exec", {"exec": command})
    assert '"printed"' in await who_am_i(path)


async def test_nobody_in_particular_is_forbidden_what_needs_a_name(plane: ControlPlane) -> None:
    assert '"system:anonymous"' in await who_am_i(plane.write_kubeconfig("nobody", {}))


# -- what a node may read ----------------------------------------------------------------------------------------------
NODE_AND_POD = """
apiVersion: v1
kind: Secret
metadata: {name: used, namespace: default}
---
apiVersion: v1
kind: Secret
metadata: {name: unused, namespace: default}
---
apiVersion: v1
kind: Pod
metadata: {name: on-node, namespace: default}
spec:
  nodeName: authorized
  automountServiceAccountToken: false
  containers: [{name: main, image: none}]
  volumes: [{name: secret, secret: {secretName: used}}]
"""


async def test_a_node_reads_its_own_pods_and_what_they_use_and_nothing_else(plane: ControlPlane) -> None:
    async with client(plane.node_kubeconfig("authorized")) as node:
        kubectl(plane, "apply", "-f", "-", given="{apiVersion: v1, kind: Node, metadata: {name: authorized}}")
        kubectl(plane, "apply", "-f", "-", given=NODE_AND_POD)
        pods = await node.list(POD, ListOptions(field_selector="spec.nodeName=authorized"))
        assert [item.metadata.name for item in pods.items] == ["on-node"]
        assert (await allowed(lambda: node.get(SECRET, "default", "used"))).metadata.name == "used"
        only = ListOptions(namespace="default", field_selector="metadata.name=used")
        assert len((await node.list(SECRET, only)).items) == 1
        watched = WatchOptions(namespace="default", field_selector="metadata.name=used", send_initial_events=True)
        async with node.watch(SECRET, watched) as events:
            assert (await anext(events)).type is EventType.ADDED
        for refused in (
            node.get(SECRET, "default", "unused"),
            node.list(SECRET),
            node.list(SECRET, ListOptions(namespace="default")),
            node.list(CONFIG_MAP),
            node.patch(NODE, "", "least", {"metadata": {"labels": {"mine": "yes"}}}),
        ):
            with pytest.raises(Forbidden):
                await refused


async def allowed(ask: Callable[[], Awaitable[T]]) -> T:
    """What is answered once it is allowed: the node authorizer hears of a pod a little later, and tells nobody when."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await ask()
            except Forbidden:
                await asyncio.sleep(0.05)


# -- servers that go away ----------------------------------------------------------------------------------------------
async def test_a_server_that_was_killed_cannot_be_reached_and_can_when_it_is_back(
    api: ApiServer, plane: ControlPlane
) -> None:
    before = await api.get(CONFIG_MAP, "default", "kube-root-ca.crt")
    now = (await api.list(CONFIG_MAP)).resource_version  # after a restart a server knows no older one
    async with api.watch(CONFIG_MAP, WatchOptions(resource_version=now)) as events:
        plane.kill(SERVER)
        async with asyncio.timeout(30):
            assert [event async for event in events if event.type is EventType.ERROR] == []
    with pytest.raises(ConnectionRefused):
        await api.get(CONFIG_MAP, "default", "kube-root-ca.crt")
    await plane.start(SERVER)
    assert await api.get(CONFIG_MAP, "default", "kube-root-ca.crt") == before
