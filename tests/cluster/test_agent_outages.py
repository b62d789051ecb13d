"""What agents do while the API server is away, and what they make up for when it is back."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from rig.control_plane import ETCD, SERVER, ControlPlane
from tests.cluster.agents import PATIENCE, Agent, Cluster, cluster, config_map, pod, secret
from tests.cluster.test_api_server import each_of

from mooring.host import syscalls
from mooring.kube import kubeconfig
from mooring.kube.api import AlreadyExists, ApiError
from mooring.kube.api_server import ApiServer
from mooring.kube.objects import ConfigMap, Container, ObjectMeta, Pod, PodSpec
from mooring.kube.objects.kinds import CONFIG_MAP
from mooring.kube.objects.pod import VolumeMount
from mooring.kube.objects.volumes import ConfigMapVolumeSource, EmptyDirVolumeSource, Volume

__all__ = ["cluster"]

pytestmark = pytest.mark.cluster

ARRIVALS = 200
UPDATES = 2000
MAPS = 20
CONTENT = {
    "config": "configMap: {name: settings}",
    "password": "secret: {secretName: password}",
    "token": "projected: {sources: [{serviceAccountToken: {path: token}}]}",
    "cache": "emptyDir: {medium: Memory}",
}


@pytest.fixture
async def admin(plane: ControlPlane) -> AsyncIterator[ApiServer]:
    async with ApiServer(kubeconfig.load(str(plane.kubeconfig)), agent="mooring-test") as made:
        yield made


def unreachable(cluster: Cluster, agent: Agent) -> Path:
    """A kubeconfig of the node's whose server is not there."""
    text = agent.kubeconfig.read_text().replace(cluster.plane.server, "https://127.0.0.1:1")
    path = Path(agent.root).parent / "unreachable.kubeconfig"
    path.write_text(text)
    return path


def forget_mounts(agent: Agent) -> None:
    """What a start of the machine does to volumes in memory: their mounts are gone, their directories are not."""
    for path in sorted(agent.mounts(), reverse=True):
        syscalls.umount2(path, syscalls.UMOUNT_NOFOLLOW)
    Path(agent.root, "boot-id").write_text("5d0b2a5e-3d0e-4c7c-9f0b-2d5f0e6c1a11\n")


def has_kept(agent: Agent, text: str) -> bool:
    """Whether a text is in the view that the agent keeps, which only the agent may open."""
    return any(text.encode() in file.read_bytes() for file in Path(agent.root, "offline").iterdir())


async def persistently(call: Callable[[], Awaitable[object]]) -> None:
    """Write, however often it takes: a server that is killed answers nobody."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await call()
                return
            except AlreadyExists:
                return
            except ApiError:
                await asyncio.sleep(0.05)


def wanted_pod(cluster: Cluster, agent: Agent, number: int) -> Pod:
    volumes = (
        Volume(name="config", config_map=ConfigMapVolumeSource(name="settings")),
        Volume(name="cache", empty_dir=EmptyDirVolumeSource(medium="Memory")),
    )
    mounts = tuple(VolumeMount(name=each.name, mount_path=f"/{each.name}") for each in volumes)
    container = Container(name="main", image="none", volume_mounts=mounts)
    spec = PodSpec(node_name=agent.name, containers=(container,), volumes=volumes)
    return Pod(metadata=ObjectMeta(name=f"pod-{number}", namespace=cluster.namespace), spec=spec)


async def test_nothing_is_lost_or_double_when_server_and_etcd_die_while_pods_arrive(
    cluster: Cluster, plane: ControlPlane, admin: ApiServer
) -> None:
    agent = cluster.agent()
    agent.start()
    await asyncio.to_thread(cluster.apply, config_map("settings", key="1"))
    moments = {number: asyncio.Event() for number in (ARRIVALS // 5, ARRIVALS // 2)}

    async def arrive(number: int) -> None:
        await persistently(lambda: admin.create(wanted_pod(cluster, agent, number)))
        if number in moments:
            moments[number].set()

    async def disturb() -> None:
        for programs, moment in zip(((SERVER,), (ETCD, SERVER)), moments.values(), strict=True):
            await moment.wait()
            for program in programs:
                plane.kill(program)
            await asyncio.sleep(0.3)
            await plane.revive()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(disturb())
        await each_of([str(number) for number in range(ARRIVALS)], lambda number: arrive(int(number)))
    await asyncio.to_thread(agent.ready, *(cluster.key(f"pod-{number}") for number in range(ARRIVALS)))
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    places = Counter(line.split()[4] for line in mounts if line.split()[4].startswith(f"{agent.root}/pods/"))
    assert len(places) == 2 * ARRIVALS, "the cache, and the token that the cluster adds"
    assert set(places.values()) == {1}
    assert len(list(Path(agent.root, "pods").iterdir())) == ARRIVALS


async def test_the_last_of_two_thousand_updates_is_in_every_volume(cluster: Cluster, admin: ApiServer) -> None:
    agent = cluster.agent()
    agent.start()
    names = [f"map-{number}" for number in range(MAPS)]
    for name in names:
        meta = ObjectMeta(name=name, namespace=cluster.namespace)
        await admin.create(ConfigMap(metadata=meta, data={"key": "begin", "same": "begin"}))
    pods = [pod(name, agent.name, {"own": f"configMap: {{name: {name}}}", "all": _projected(names)}) for name in names]
    await asyncio.to_thread(cluster.apply, "".join(pods))
    await asyncio.to_thread(agent.ready, *map(cluster.key, names))

    async def write(name: str) -> None:
        for number in range(UPDATES // MAPS):
            change = {"data": {"key": str(number), "same": str(number)}}
            await admin.patch(CONFIG_MAP, cluster.namespace, name, change)

    await each_of(names, write)
    last = str(UPDATES // MAPS - 1)

    def all_right() -> bool:
        found = {path.read_text() for path in Path(agent.root, "pods").glob("*/volumes/*/*/..data/**/key")}
        return found == {last}

    own = await asyncio.to_thread(agent.path_of, cluster.key(names[0]), "own")
    assert (own / "key").is_file()
    await asyncio.to_thread(cluster.until, all_right)
    for path in Path(agent.root, "pods").glob("*/volumes/*/own"):
        assert (path / "key").read_text() == (path / "same").read_text() == last


def _projected(names: list[str]) -> str:
    sources = ", ".join(f"{{configMap: {{name: {name}, items: [{{key: key, path: {name}/key}}]}}}}" for name in names)
    return f"projected: {{sources: [{sources}]}}"


def test_after_a_boot_without_a_server_known_pods_have_their_volumes(cluster: Cluster) -> None:
    agent = cluster.agent()
    agent.environment = {"MOORING_BACKOFF_MAXIMUM": "1s"}
    agent.start()
    cluster.apply(config_map("settings", key="kept") + secret("password", "sealed") + pod("web", agent.name, CONTENT))
    agent.ready(cluster.key("web"))
    token = (agent.path_of(cluster.key("web"), "token") / "token").read_text()
    agent.end(signal.SIGTERM)
    forget_mounts(agent)

    agent.start(kubeconfig=unreachable(cluster, agent))
    agent.ready(cluster.key("web"))
    read = {
        name: (agent.path_of(cluster.key("web"), name) / key).read_text()
        for name, key in (("config", "key"), ("password", "key"), ("token", "token"))
    }
    assert read == {"config": "kept", "password": "sealed", "token": token}
    (finding,) = agent.json("get", "findings")
    assert (finding["kind"], finding["where"]) == ("cluster", "https://127.0.0.1:1")
    assert "Connection refused" in finding["what"]
    assert agent.mounts()
    for file in Path(agent.root).rglob("*"):
        if file.is_file() and "/pods/" not in str(file):
            held = file.read_bytes()
            assert b"sealed" not in held, file
            assert token.encode() not in held, file

    agent.end(signal.SIGTERM)
    cluster.delete_pod("web")
    agent.start()
    agent.gone(cluster.key("web"))
    assert agent.json("get", "findings") == []
    cluster.until(lambda: not agent.mounts())


def test_without_kept_secrets_only_what_needs_none_comes_back(cluster: Cluster) -> None:
    agent = cluster.agent()
    agent.environment = {"MOORING_OFFLINE_SECRETS": "never"}
    agent.start()
    cluster.apply(config_map("settings", key="kept") + secret("password", "sealed"))
    for name in ("config", "password"):
        cluster.apply(pod(name, agent.name, {name: CONTENT[name]}))
    agent.ready(cluster.key("config"), cluster.key("password"))
    agent.end(signal.SIGTERM)
    forget_mounts(agent)
    agent.start(kubeconfig=unreachable(cluster, agent))
    agent.ready(cluster.key("config"))
    told = agent.json("explain", cluster.key("password"))
    assert told["ready"] is False
    assert "the API server" in told["cause"]
    assert not list(Path(agent.root, "offline").glob("key"))


def test_volumes_stay_while_the_server_is_away_and_nothing_is_taken_down_on_hearsay(
    cluster: Cluster, plane: ControlPlane
) -> None:
    agent = cluster.agent()
    agent.start()
    cluster.apply(config_map("settings", key="noted-a-while-ago"))
    cluster.apply(pod("web", agent.name, {"config": CONTENT["config"]}))
    agent.ready(cluster.key("web"))
    cluster.until(lambda: has_kept(agent, "noted-a-while-ago"))
    before = agent.mounts()
    plane.kill(SERVER)
    try:
        agent.end(signal.SIGKILL)
        agent.start()
        agent.ready(cluster.key("web"))
        assert agent.mounts() == before
    finally:
        asyncio.run(plane.revive())
    cluster.until(lambda: "the API server serves again" in agent.log())
    cluster.apply(config_map("settings", key="2"))
    path = agent.path_of(cluster.key("web"), "config") / "key"
    cluster.until(lambda: path.read_text() == "2")
