"""Drivers of FlexVolumes come and go in their directory."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from tests.plugins.conftest import PluginBench

from mooring.errors import NotYet
from mooring.host.paths import Paths
from mooring.host.programs import ProgramResult
from mooring.kube.objects.volumes import FlexVolumeSource, Volume
from mooring.plugins.flex_prober import FlexProber
from mooring.plugins.flex_volume import FlexVolumePlugin
from mooring.plugins.interface import PluginContext
from mooring.testing.virtual_time import run_virtual
from mooring.world.names import PluginName
from mooring.world.spec import VolumeSpec

DIRECTORY = "/drivers"
NBD = f"{DIRECTORY}/example.com~nbd/nbd"
NAME = PluginName("example.com/nbd")


class Drivers:
    """A prober over a machine in memory; `replies` are what drivers answer to `init`, by their programs."""

    def __init__(self) -> None:
        self.bench = PluginBench()
        self.host, self.plugins = self.bench.host, self.bench.plugins
        context = PluginContext(
            host=self.host,
            paths=Paths("/var/lib/mooring"),
            objects=self.bench.objects,
            node=lambda: self.bench.facts,
            data_directory=lambda: "..data",
            tell=lambda _: None,
        )
        self.prober = self.plugins.prober = FlexProber(context, self.plugins, DIRECTORY)
        self.changes: list[str] = []
        self.prober.changed = self.changes.append
        self.replies: dict[str, str] = {}
        self.host.program_result = self._run

    def _run(self, arguments: Sequence[str]) -> ProgramResult:
        return ProgramResult(status=0, output=self.replies.get(arguments[0], '{"status": "Success"}'))

    def install(self, program: str = NBD, *, mode: int = 0o755, text: str = "#!/bin/sh") -> None:
        self.host.put_file(program, text)
        self.host.change_mode(program, mode)

    def probe(self) -> list[str]:
        """Look again, and return the drivers there are."""
        run_virtual(self.prober.probe())
        return sorted(name for name, plugin in self.plugins.plugins.items() if isinstance(plugin, FlexVolumePlugin))


@pytest.fixture
def drivers() -> Drivers:
    return Drivers()


def volume(driver: str = "example.com/nbd") -> VolumeSpec:
    return VolumeSpec(volume=Volume(name="v", flex_volume=FlexVolumeSource(driver=driver)))


def test_a_missing_directory_has_no_drivers(drivers: Drivers) -> None:
    assert drivers.probe() == []


def test_drivers_are_found_with_and_without_a_vendor(drivers: Drivers) -> None:
    drivers.install()
    drivers.install(f"{DIRECTORY}/plain/plain")
    assert drivers.probe() == ["example.com/nbd", "plain"]
    assert drivers.host.programs_run == [(NBD, "init"), (f"{DIRECTORY}/plain/plain", "init")]


def test_a_driver_is_initialised_once(drivers: Drivers) -> None:
    drivers.install()
    drivers.probe()
    drivers.probe()
    assert len(drivers.host.programs_run) == 1
    assert drivers.changes == ["example.com/nbd"]


def test_hidden_directories_files_and_programs_that_may_not_run_are_no_drivers(drivers: Drivers) -> None:
    drivers.install(f"{DIRECTORY}/.example.com~tmp/tmp")
    drivers.install(f"{DIRECTORY}/example.com~nbd/other")
    drivers.install(f"{DIRECTORY}/example.com~plain/plain", mode=0o644)
    drivers.install(f"{DIRECTORY}/README")
    assert drivers.probe() == []
    assert drivers.host.programs_run == []


def test_a_driver_that_is_removed_is_dropped(drivers: Drivers) -> None:
    drivers.install()
    drivers.probe()
    drivers.host.remove_file(NBD)
    assert drivers.probe() == []
    assert drivers.changes == ["example.com/nbd"] * 2


def test_a_driver_that_is_replaced_is_initialised_again(drivers: Drivers) -> None:
    drivers.install()
    drivers.probe()
    drivers.replies[NBD] = json.dumps({"status": "Success", "capabilities": {"attach": False}})
    drivers.install(text="#!/bin/bash -e")
    drivers.probe()
    plugin = drivers.plugins.find_by_name(NAME)
    assert isinstance(plugin, FlexVolumePlugin)
    assert not plugin.capabilities.attach


def test_a_driver_that_cannot_be_initialised_is_a_problem_until_it_can(drivers: Drivers) -> None:
    drivers.install()
    drivers.replies[NBD] = '{"status": "Failure", "message": "no modules"}'
    assert drivers.probe() == []
    (problem,) = drivers.plugins.problems
    assert "no modules" in problem.why
    del drivers.replies[NBD]
    assert drivers.probe() == ["example.com/nbd"]
    assert drivers.plugins.problems == []


def test_a_driver_cannot_take_the_place_of_a_type_that_mooring_brings(drivers: Drivers) -> None:
    before = drivers.plugins.find_by_name(PluginName("kubernetes.io/nfs"))
    drivers.install(f"{DIRECTORY}/kubernetes.io~nfs/nfs")
    assert drivers.probe() == []
    assert drivers.plugins.find_by_name(PluginName("kubernetes.io/nfs")) is before
    assert "registered more than once" in drivers.plugins.problems[0].what


def test_a_volume_waits_for_a_driver_that_is_not_there_and_is_told_where_it_belongs(drivers: Drivers) -> None:
    with pytest.raises(NotYet, match=r"no FlexVolume driver 'example\.com/nbd' is installed") as caught:
        drivers.plugins.find_by_spec(volume())
    assert NBD in caught.value.next_step
    drivers.install()
    drivers.probe()
    assert drivers.plugins.find_by_spec(volume()).name == NAME


def test_a_plan_takes_drivers_for_usable_without_running_them(drivers: Drivers) -> None:
    drivers.install()
    drivers.prober.assume_all()
    assert drivers.plugins.find_by_spec(volume()).name == NAME
    assert drivers.host.programs_run == []
