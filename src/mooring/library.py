"""For programs that embed mooring: a volume manager in one call."""

from __future__ import annotations

from mooring.daemon.building import Lookups, build_manager, make_host
from mooring.daemon.node_facts import node_facts
from mooring.host.interface import Host
from mooring.manager.pods import PodStates
from mooring.manager.volume_manager import VolumeManager
from mooring.plugins.interface import Tokens
from mooring.settings import Settings


def make_manager(
    root: str,
    objects: Lookups,
    *,
    settings: Settings | None = None,
    host: Host | None = None,
    states: PodStates | None = None,
    tokens: Tokens | None = None,
) -> VolumeManager:
    """A manager over `root` whose ConfigMaps, Secrets and claims the caller keeps, say in an `ObjectTable`.

    Without `states` a pod's volumes live from `pod_changed` to `pod_removed`; with it, until its containers have gone.
    Without `tokens` volumes with a service account token are refused.
    """
    chosen = settings if settings is not None else Settings(root=root)
    machine = host if host is not None else make_host(chosen)
    return build_manager(chosen, machine, objects, node_facts(chosen, lambda: None), states=states, tokens=tokens)
