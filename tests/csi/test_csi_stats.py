"""How full volumes are, as a driver on a real socket tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.csi.drivers import Drivers
from mooring.csi.stats import volume_usage
from mooring.errors import Refused
from mooring.host.interface import FileSystemUsage
from mooring.stubs import csi_pb2 as csi
from mooring.testing.memory_host import MemoryHost
from mooring.testing.scripted_csi_driver import ScriptedCSIDriver

Unit = csi.VolumeUsage


@pytest.fixture
def driver(tmp_path: Path) -> ScriptedCSIDriver:
    return ScriptedCSIDriver(MemoryHost(), str(tmp_path / "csi.sock"))


async def asked(driver: ScriptedCSIDriver) -> FileSystemUsage | Refused:
    """What is told, or why it is not: raised here, it would come wrapped by the driver's own tasks."""
    drivers = Drivers()
    async with driver.serving():
        await drivers.register(driver.name, driver.socket, ["1.0.0"])
        try:
            return await volume_usage(drivers.require(driver.name, "cannot look"), "vol-1", "/target")
        except Refused as error:
            return error
        finally:
            await drivers.close()


async def test_bytes_and_inodes_are_told_and_the_last_entry_of_a_unit_counts(driver: ScriptedCSIDriver) -> None:
    driver.usage = [
        Unit(unit=Unit.BYTES, total=1, available=1, used=1),
        Unit(unit=Unit.UNKNOWN, total=99),
        Unit(unit=Unit.BYTES, total=10, available=7, used=3),
        Unit(unit=Unit.INODES, total=6, available=4, used=2),
    ]
    told = await asked(driver)
    assert told == FileSystemUsage(capacity=10, available=7, used=3, inodes=6, inodes_free=4, inodes_used=2)


async def test_an_empty_answer_is_refused(driver: ScriptedCSIDriver) -> None:
    assert "told no usage" in str(await asked(driver))


async def test_a_driver_that_cannot_tell_is_not_asked(driver: ScriptedCSIDriver) -> None:
    driver.abilities = []
    assert "does not support GET_VOLUME_STATS" in str(await asked(driver))
    assert driver.requests(csi.NodeGetVolumeStatsRequest) == []
