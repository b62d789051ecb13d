"""What is done when the driver starts: what it was at when it ended is taken back or brought to its end."""

from __future__ import annotations

import logging

from mooring.errors import MooringError
from mooring.loop_driver.devices import Devices
from mooring.loop_driver.driver import Driver
from mooring.loop_driver.targets import Targets
from mooring.loop_driver.volumes import Access, Phase, Volume

log = logging.getLogger(__name__)


async def recover(driver: Driver) -> None:
    """Read what is known, and tidy up after a driver that was killed. Volumes that are in use stay as they are."""
    shelf = driver.shelf
    await shelf.load()
    for finding in shelf.findings:
        log.warning("%s: %s. %s.", finding.where, finding.what, finding.next_step)
    for volume in list(shelf.volumes.values()):
        try:
            await _tidy_volume(driver, volume)
        except (MooringError, OSError) as error:  # the caller comes back for it
            log.warning("volume %s could not be tidied up: %s", volume.id, error)
    for snapshot in list(shelf.snapshots.values()):
        if snapshot.phase is not Phase.READY:
            await shelf.forget(snapshot)


async def _tidy_volume(driver: Driver, volume: Volume) -> None:
    devices = Devices(driver.host, driver.backing)
    targets = Targets(driver.host, devices)
    disk = driver.shelf.disk(volume.id)
    if volume.phase is Phase.READY:
        await driver.on_host(lambda: _tidy_devices(driver, devices, targets, volume, disk), f"look at {volume.id}")
        return
    await driver.on_host(lambda: _take_back(driver, devices, targets, volume, disk), f"remove {volume.id}")
    await driver.shelf.forget(volume)


def _tidy_devices(driver: Driver, devices: Devices, targets: Targets, volume: Volume, disk: str) -> None:
    """Let go of devices that nothing uses, and of a file system that was frozen for a copy."""
    stage = volume.stage
    if stage is None:
        devices.release(disk)
        return
    device = driver.host.loop_of(disk)
    if device is not None and not any(each.access is Access.BLOCK and each.read_only for each in targets.live(volume)):
        devices.drop_view(device)
    if stage.access is Access.MOUNT and devices.is_mounted(disk, stage.path):
        driver.backing.thaw(stage.path)


def _take_back(driver: Driver, devices: Devices, targets: Targets, volume: Volume, disk: str) -> None:
    """Clear all that a volume may have, of which nobody was told or which nobody wants any more."""
    for target in volume.targets:
        targets.clear(target.path)
    if volume.stage is not None and volume.stage.access is Access.MOUNT:
        devices.unmount(disk, volume.stage.path)
    devices.release(disk)
    if volume.inline and driver.host.look(driver.shelf.inline_stage(volume.id)) is not None:
        driver.host.remove_directory(driver.shelf.inline_stage(volume.id))
