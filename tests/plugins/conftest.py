"""One volume of one pod on a machine in memory, set up and torn down by its plugin alone."""

from __future__ import annotations

from itertools import count

import pytest

from mooring.host.interface import FileFacts
from mooring.host.paths import Paths
from mooring.kube.objects.meta import KubernetesObject, ObjectMeta
from mooring.kube.objects.pod import ConfigMap, Container, Pod, PodSpec, Secret, VolumeMount
from mooring.kube.objects.volumes import Volume
from mooring.plugins.builtin import BUILTIN
from mooring.plugins.interface import NodeFacts, Offer, PluginContext, Setup, Tokens
from mooring.plugins.manager import VolumePluginManager
from mooring.sources.object_table import ObjectTable
from mooring.testing.memory_host import MemoryHost
from mooring.testing.virtual_time import run_virtual
from mooring.world.changes import Noticed
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec

ROOT = "/var/lib/mooring"
UID = PodUid("uid-1")
GIBIBYTE = 2**30


class PluginBench:
    """Plugins over a `MemoryHost`. Everything happens for the pod `shop/web`."""

    def __init__(
        self, tokens: Tokens | None = None, *, allow_git_repo: bool = False, project_quotas: str = "off"
    ) -> None:
        self.host = MemoryHost()
        self.look_again_after: float | None = None  # as the last set-up said
        self.objects = ObjectTable()
        self.facts = NodeFacts(
            name="node", memory=16 * GIBIBYTE, cpu_milli=4000, ephemeral_storage=100 * GIBIBYTE, labels={}
        )
        numbers = count(1)
        self.notices: list[Noticed] = []
        context = PluginContext(
            host=self.host,
            paths=Paths(ROOT),
            objects=self.objects,
            node=lambda: self.facts,
            data_directory=lambda: f"..2026_01_01_00_00_00.{next(numbers):010}",
            tell=self.notices.append,
            tokens=tokens,
            allow_git_repo=allow_git_repo,
            project_quotas=project_quotas,
        )
        self.plugins = VolumePluginManager(factory(context) for factory in BUILTIN)
        self.host.make_directories(f"{ROOT}/pods/{UID}/volumes", 0o750)

    # -- objects -------------------------------------------------------------------------------------------------
    def put(self, obj: KubernetesObject) -> None:
        self.objects.put(obj)

    def config_map(self, name: str, *, namespace: str = "shop", **data: str) -> ConfigMap:
        made = ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data)
        self.put(made)
        return made

    def secret(self, name: str, *, namespace: str = "shop", **data: str) -> Secret:
        encoded = {key: text.encode() for key, text in data.items()}
        made = Secret(metadata=ObjectMeta(name=name, namespace=namespace), data=encoded)
        self.put(made)
        return made

    def pod(self, volume: Volume, *containers: Container, metadata: ObjectMeta | None = None) -> Pod:
        """A pod whose containers use the volume; one container does when none are given."""
        mounts = (VolumeMount(name=volume.name, mount_path="/v"),)
        return Pod(
            metadata=metadata or ObjectMeta(name="web", namespace="shop", uid=UID),
            spec=PodSpec(volumes=(volume,), containers=containers or (Container(name="main", volume_mounts=mounts),)),
        )

    # -- doing ---------------------------------------------------------------------------------------------------
    def offer(self, volume: Volume) -> Offer:
        spec = VolumeSpec(volume=volume)
        return self.plugins.find_by_spec(spec).offer(spec)

    def path(self, volume: Volume) -> str:
        return self.offer(volume).mounter.path(UID, VolumeSpec(volume=volume))

    def set_up(
        self,
        volume: Volume,
        *,
        pod: Pod | None = None,
        fs_user: int | None = None,
        fs_group: int | None = None,
        refresh: bool = False,
        reconstructed: bool = False,
        size_limit: int = 0,
    ) -> str:
        """Set a volume up, and return its path."""
        request = Setup(
            pod=pod or self.pod(volume),
            uid=UID,
            spec=VolumeSpec(volume=volume),
            fs_user=fs_user,
            fs_group=fs_group,
            refresh=refresh,
            reconstructed=reconstructed,
            size_limit=size_limit,
        )
        self.look_again_after = run_virtual(self.offer(volume).mounter.set_up(request))
        return self.path(volume)

    def tear_down(self, volume: Volume) -> None:
        run_virtual(self.offer(volume).mounter.tear_down(UID, VolumeSpec(volume=volume)))

    # -- looking -------------------------------------------------------------------------------------------------
    def facts_of(self, path: str) -> FileFacts:
        found = self.host.look(path)
        assert found is not None, f"nothing is at {path}"
        return found

    def mode(self, path: str) -> int:
        return self.facts_of(path).mode

    def owner(self, path: str) -> tuple[int, int]:
        facts = self.facts_of(path)
        return facts.uid, facts.gid

    def data_directory(self, path: str) -> str:
        """The name that `..data` leads to."""
        name = self.host.read_link(f"{path}/..data")
        assert name is not None
        return name

    def texts(self, path: str) -> dict[str, str]:
        """The files a container sees at the top of a volume, with their content."""
        names = [name for name in self.host.names_in(path) if not name.startswith("..")]
        return {name: self.host.read_file(f"{path}/{name}").decode() for name in names}


@pytest.fixture
def bench() -> PluginBench:
    return PluginBench()
