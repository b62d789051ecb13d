"""Building a volume manager from its parts; every face of mooring gets its manager here."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from mooring.csi.attachments import AttachmentOrders
from mooring.csi.drivers import Drivers
from mooring.csi.plugin import CSIPlugin
from mooring.csi.surroundings import CSIObjects
from mooring.daemon.node_facts import machine_address
from mooring.host import features
from mooring.host.atomic_writer import data_directory_name
from mooring.host.chores import Sharing
from mooring.host.interface import Host
from mooring.host.linux import LinuxHost
from mooring.host.paths import Paths
from mooring.manager.claims import Claims, ClaimStatus
from mooring.manager.pods import PodManager, PodStates
from mooring.manager.volume_manager import VolumeManager
from mooring.plugins.builtin import make_plugins
from mooring.plugins.flex_prober import FlexProber
from mooring.plugins.interface import NodeFacts, Objects, PluginContext, Tokens
from mooring.settings import Settings
from mooring.world.changes import Noticed


def make_host(settings: Settings) -> LinuxHost:
    """The machine itself, as an instance with these settings uses it."""
    probed = features.probe()
    host = LinuxHost(
        features=replace(probed, mount_events=probed.mount_events and settings.mount_events == "auto"),
        deadline=settings.host_call_timeout,
        debts_directory=Paths(settings.root).debts_dir,
        sharing=Sharing(settings.share_work),
    )
    if "MOORING_FAULT" in os.environ or "MOORING_FAULT_LOG" in os.environ:
        from mooring.testing.fault_points import FaultPoints  # noqa: PLC0415 - only for tests of crashes

        return FaultPoints(os.environ).watch(host)
    return host


class Lookups(Objects, Claims, CSIObjects, Protocol):
    """Where a manager finds ConfigMaps, Secrets, claims, volumes and what tells about CSI drivers."""


def build_manager(
    settings: Settings,
    host: Host,
    objects: Lookups,
    facts: Callable[[], NodeFacts],
    *,
    pods: PodManager | None = None,
    states: PodStates | None = None,
    clock: Callable[[], float] | None = None,
    tokens: Tokens | None = None,
    drivers: Drivers | None = None,
    orders: AttachmentOrders | None = None,
    claim_status: ClaimStatus | None = None,
    attached_by_others: bool = False,
) -> VolumeManager:
    """A manager over the root directory of the settings, with all plugins of this installation.

    Without `tokens` volumes that want one are refused. CSI volumes are served by those `drivers` that register; with
    `orders` the node lets volumes be attached itself; those `attached_by_others` are awaited. `claim_status` keeps
    claims up with volumes that grow.
    """
    paths = Paths(settings.root)
    digits = random.Random()

    def tell(notice: Noticed) -> None:
        manager.tell(notice)

    context = PluginContext(
        host=host,
        paths=paths,
        objects=objects,
        node=facts,
        data_directory=lambda: data_directory_name(datetime.now(UTC), digits),
        tell=tell,
        tokens=tokens,
        allow_git_repo=settings.allow_git_repo == "yes",
        project_quotas=settings.project_quotas,
        attached_by_others=attached_by_others,
    )
    plugins = make_plugins(context)
    known = drivers if drivers is not None else Drivers(timeout=settings.csi_timeout)
    plugins.register(CSIPlugin(context, known, objects, orders=orders, asks_drivers=settings.attach != "external"))
    plugins.prober = FlexProber(context, plugins, settings.flex_volume_directory or paths.flex_volume_dir)
    manager = VolumeManager(
        settings=settings,
        host=host,
        paths=paths,
        plugins=plugins,
        claims=objects,
        node=facts,
        objects=objects,
        address=machine_address(),
        claim_status=claim_status,
        pods=pods,
        states=states,
        clock=clock,
        attached_by_others=attached_by_others,
    )
    return manager
