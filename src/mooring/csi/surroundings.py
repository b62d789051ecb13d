"""What staging and publishing work with: the drivers, the objects that tell about them, secrets and tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from mooring.csi import vol_data
from mooring.csi.attachments import Verdict, name_of, verdict
from mooring.csi.client import CallFailed
from mooring.csi.drivers import Driver, Drivers
from mooring.csi.names import DATA_FILE, Places, inline_source
from mooring.errors import Doubtful, MooringError, NotYet
from mooring.host.interface import Host
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import CSIDriver, VolumeAttachment
from mooring.plugins.interface import IssuedToken, PluginContext, TokenRequest
from mooring.plugins.payload import missing_object
from mooring.plugins.projected import account_name
from mooring.world.spec import VolumeSpec

TOKEN_SECONDS = 3600
"""How long a token is valid when a CSIDriver object does not say."""


class CSIObjects(Protocol):
    """The objects that tell about drivers and what is attached, from a cache."""

    def csi_driver(self, name: str) -> CSIDriver | None: ...

    def volume_attachment(self, name: str) -> VolumeAttachment | None: ...

    def volume_attachments(self) -> Iterable[VolumeAttachment]: ...


class Surroundings:
    """Looks up what one volume needs. What is missing is a `NotYet`: the driver has not been asked anything then."""

    def __init__(
        self,
        context: PluginContext,
        drivers: Drivers,
        objects: CSIObjects,
        *,
        asks_drivers: bool,
    ) -> None:
        self.host = context.host
        self.places = Places(context.paths)
        self.drivers = drivers
        self.node = context.node
        self.object = objects.csi_driver
        self.attachments = objects
        self._objects = context.objects
        self._tokens = context.tokens
        self._asks_drivers = asks_drivers  # else a driver without an object of its own counts as one that attaches

    def driver_to_set_up(self, spec: VolumeSpec, what: str) -> Driver:
        """The driver of a volume that can be set up here: registered, and of a kind that this node can use."""
        driver = self.drivers.require(spec.csi_driver, what)
        self.check_mode(spec, what)
        return driver

    def check_mode(self, spec: VolumeSpec, what: str) -> None:
        """Refuse a volume of a kind, persistent or written in a pod, that its driver does not serve."""
        name = spec.csi_driver
        known = self.object(name)
        mode = vol_data.PERSISTENT if inline_source(spec) is None else vol_data.EPHEMERAL
        modes = known.spec.volume_lifecycle_modes if known is not None else (vol_data.PERSISTENT,)
        if mode not in modes:
            why = f"driver {name!r} does not serve volumes of mode {mode!r}"
            raise NotYet(what, why=why, next_step=f"List the mode in the CSIDriver object {name!r}")

    async def needs_attaching(self, spec: VolumeSpec, what: str) -> bool:
        """Whether a PersistentVolume must be attached; a driver of which no object tells is asked what it can do."""
        known = self.object(spec.csi_driver)
        if known is not None:
            return known.spec.attach_required
        if not self._asks_drivers or self._attachment(spec) is not None:
            return True
        driver = self.drivers.require(spec.csi_driver, what)
        try:
            return (await driver.controller_capabilities()).publishes
        except CallFailed as error:
            raise error.as_outcome(what) from error

    def _attachment(self, spec: VolumeSpec) -> VolumeAttachment | None:
        return self.attachments.volume_attachment(name_of(spec, self.node().name))

    def publish_context(self, spec: VolumeSpec, what: str) -> dict[str, str]:
        """What whoever attached a volume has to tell its driver on this node."""
        known = self.object(spec.csi_driver)
        if inline_source(spec) is not None or (known is not None and not known.spec.attach_required):
            return {}
        found = self._attachment(spec)
        if verdict(found) is Verdict.ATTACHED and found is not None:
            return dict(found.status.attachment_metadata)
        if known is None and self._asks_drivers and found is None:
            return {}  # it was found to need no attaching
        why = f"VolumeAttachment {name_of(spec, self.node().name)!r} does not say that it is attached"
        raise NotYet(what, why=why)

    def secrets(self, namespace: str, name: str) -> dict[str, str]:
        """The content of a Secret as drivers take it; nothing when none is named."""
        if not name:
            return {}
        found = self._objects.secret(namespace, name)
        if found is None:
            raise missing_object(self._objects, "Secret", namespace, name, "Create it, or correct the volume's secret")
        try:
            return {key: value.decode() for key, value in found.data.items()}
        except UnicodeDecodeError:
            why = "one of its values is not a text"
        raise NotYet(f"cannot hand Secret {name!r} to a driver", why=why)

    async def tokens(self, pod: Pod, driver: CSIDriver | None) -> Mapping[str, IssuedToken]:
        """The tokens of a pod's service account that its driver asks for, by audience."""
        wanted = driver.spec.token_requests if driver is not None else ()
        if not wanted:
            return {}
        what = f"cannot get tokens for pod {pod.key!r}"
        if self._tokens is None:
            raise NotYet(what, why="nobody issues tokens here")
        try:
            return {
                each.audience: await self._tokens.token(
                    TokenRequest(
                        namespace=pod.metadata.namespace,
                        service_account=account_name(pod),
                        expiration_seconds=each.expiration_seconds or TOKEN_SECONDS,
                        audiences=(each.audience,) if each.audience else (),
                        pod_name=pod.metadata.name,
                        pod_uid=pod.metadata.uid,
                    )
                )
                for each in wanted
            }
        except MooringError as error:
            raise NotYet(what, why=f"{error.what}: {error.why}", next_step=error.next_step) from error


def remove_unit(host: Host, unit: str, place: str) -> None:
    """Remove a place where nothing is mounted any more, its data file and what holds both. Nothing else ever goes."""
    if host.mount_at(place) is not None:
        raise Doubtful(
            f"cannot remove {place!r}",
            why="its driver has let go of it, and yet it is still mounted",
            next_step=f"Look with `findmnt {place}`; it is tried again by itself",
        )
    for path, remove in ((place, remove_directory), (unit, _remove_with_data)):
        remove(host, path)


def _remove_with_data(host: Host, unit: str) -> None:
    others = set(host.names_in(unit)) - {DATA_FILE, f"{DATA_FILE}.new"} if host.look(unit) is not None else set()
    if others:
        why = f"it holds {min(others)!r}, which is not mooring's"
        raise Doubtful(f"cannot remove {unit!r}", why=why, next_step="Save what you need from it and remove it")
    vol_data.remove(host, unit)
    remove_directory(host, unit)


def remove_directory(host: Host, path: str) -> None:
    """Remove an empty directory; one that is gone is done."""
    if host.look(path) is not None:
        host.remove_directory(path)
