"""What looks after a node beside its manager: storage limits, and drivers that come and go."""

from __future__ import annotations

from mooring.controllers.flex_driver_watcher import FlexDriverWatcher
from mooring.controllers.limit_watcher import LimitWatcher
from mooring.host.interface import Host
from mooring.kube.api import Api
from mooring.manager.volume_manager import VolumeManager
from mooring.plugins.flex_prober import FlexProber
from mooring.settings import Settings
from mooring.world.names import PluginName, PodUid


def watch_limits(settings: Settings, host: Host, api: Api, manager: VolumeManager) -> LimitWatcher:
    """Who evicts pods above their storage limits; it listens to the manager."""
    watcher = LimitWatcher(
        host,
        api,
        manager.desired,
        manager.actual,
        interval=settings.limit_check_interval,
        tell=manager.tell,
    )
    manager.subscribe(watcher.listen)
    return watcher


def watch_flex_drivers(host: Host, manager: VolumeManager) -> FlexDriverWatcher:
    """Who finds FlexVolume drivers; pods that waited for one are looked at again when it comes."""
    prober = manager.plugins.prober
    assert isinstance(prober, FlexProber)
    prober.changed = lambda name: plugin_changed(manager, name)
    return FlexDriverWatcher(host, prober)


def plugin_changed(manager: VolumeManager, name: PluginName) -> None:
    """A plugin came, was replaced or went: whatever failed or waited because of that is tried again at once."""
    for pod in manager.pods:
        if manager.desired.problems(PodUid(pod.metadata.uid)):
            manager.pod_state_changed(PodUid(pod.metadata.uid))
    wanted = {volume.name for volume in manager.desired.volumes.values() if volume.plugin == name}
    there = {volume.name for volume in manager.actual.volumes.values() if volume.plugin == name}
    for volume in sorted(wanted | there):
        manager.reconciler.resume(volume)
