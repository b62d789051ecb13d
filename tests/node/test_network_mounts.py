"""nfs volumes with a real mount: a stand-in for mount(8) serves the export with bindfs, a file system in user space."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mooring.errors import Refused
from mooring.host.linux import LinuxHost
from mooring.host.paths import Paths
from mooring.host.programs import PLACES
from mooring.kube.objects.volumes import NFSVolumeSource, Volume
from mooring.plugins.interface import NodeFacts, PluginContext, Setup
from mooring.plugins.nfs import NFSPlugin
from mooring.sources.object_table import ObjectTable
from mooring.testing.sample_objects import pod
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(shutil.which("bindfs") is None, reason="needs bindfs"),
]

MOUNT = """#!/bin/sh
echo "$@" >> {log}
options=
[ "$3" = -o ] && options="-o $4"
for word; do source=$target; target=$word; done
case $source in
*:/missing) echo "mount.nfs: mounting $source failed, reason given by server: No such file" >&2; exit 32 ;;
esac
exec bindfs $options "${{source#*:}}" "$target"
"""


class Exports:
    """The plugin on this machine, with a directory that is exported to it."""

    def __init__(self, root: str) -> None:
        self.root = Path(root)
        self.export, self.log = self.root / "export", self.root / "calls"
        programs = self.root / "programs"
        for directory in (self.export, programs):
            directory.mkdir()
        (self.export / "hello").write_text("from the server")
        (programs / "mount").write_text(MOUNT.format(log=self.log))
        (programs / "mount").chmod(0o755)
        self.host = LinuxHost(search_path=f"{programs}:{PLACES}")
        context = PluginContext(
            host=self.host,
            paths=Paths(f"{root}/mooring"),
            objects=ObjectTable(),
            node=lambda: NodeFacts(name="node", memory=2**30, cpu_milli=1000),
            data_directory=lambda: "..data",
            tell=lambda _: None,
        )
        self.plugin = NFSPlugin(context)

    def spec(self, path: str = "", *, read_only: bool = False) -> VolumeSpec:
        source = NFSVolumeSource(server="10.0.0.1", path=path or str(self.export), read_only=read_only)
        return VolumeSpec(volume=Volume(name="data", nfs=source))

    async def set_up(self, spec: VolumeSpec) -> Path:
        mounter = self.plugin.offer(spec).mounter
        await mounter.set_up(Setup(pod=pod("web"), uid=PodUid("uid-web"), spec=spec))
        return Path(mounter.path(PodUid("uid-web"), spec))

    async def tear_down(self, spec: VolumeSpec) -> None:
        await self.plugin.offer(spec).mounter.tear_down(PodUid("uid-web"), spec)

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def exports(node_root: str) -> Exports:
    return Exports(node_root)


async def test_an_export_is_really_there_and_really_goes(exports: Exports) -> None:
    path = await exports.set_up(exports.spec())
    assert (path / "hello").read_text() == "from the server"
    mounted = exports.host.mount_at(str(path))
    assert mounted is not None
    assert mounted.fs_type.startswith("fuse")
    assert exports.calls() == [f"-t nfs 10.0.0.1:{exports.export} {path}"]
    await exports.tear_down(exports.spec())
    assert not path.exists()
    assert (exports.export / "hello").exists()


async def test_a_read_only_export_cannot_be_written(exports: Exports) -> None:
    path = await exports.set_up(exports.spec(read_only=True))
    with pytest.raises(OSError, match="Read-only"):
        (path / "new").write_text("x")
    assert exports.calls() == [f"-t nfs -o ro 10.0.0.1:{exports.export} {path}"]
    await exports.tear_down(exports.spec())


async def test_a_mount_that_is_there_after_a_restart_is_kept_and_torn_down_by_its_name(exports: Exports) -> None:
    path = await exports.set_up(exports.spec())
    await exports.set_up(exports.spec())
    assert len(exports.calls()) == 1
    await exports.tear_down(exports.plugin.reconstruct("data"))
    assert not path.exists()


async def test_what_the_server_says_is_told_and_nothing_stays(exports: Exports) -> None:
    with pytest.raises(Refused, match=r"exit status 32, it said 'mount\.nfs: mounting 10\.0\.0\.1:/missing failed"):
        await exports.set_up(exports.spec("/missing"))
    assert not Path(f"{exports.root}/mooring/pods/uid-web/volumes/kubernetes.io~nfs/data").exists()
