"""What staging and publishing work with: the drivers, the objects that tell about them, secrets and tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mooring.csi import vol_data
from mooring.csi.drivers import Driver, Drivers
from mooring.csi.names import DATA_FILE, Places, inline_source
from mooring.errors import Doubtful, MooringError, NotYet
from mooring.host.interface import Host
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import CSIDriver
from mooring.plugins.interface import IssuedToken, PluginContext, TokenRequest
from mooring.plugins.payload import missing_object
from mooring.plugins.projected import account_name, account_uid
from mooring.world.spec import VolumeSpec

TOKEN_SECONDS = 3600
"""How long a token is valid when a CSIDriver object does not say."""


class Surroundings:
    """Looks up what one volume needs. What is missing is a `NotYet`: the driver has not been asked anything then."""

    def __init__(
        self,
        context: PluginContext,
        drivers: Drivers,
        objects: Callable[[str], CSIDriver | None],
        *,
        unknown_drivers_attach: bool,
    ) -> None:
        self.host = context.host
        self.places = Places(context.paths)
        self.drivers = drivers
        self.node = context.node
        self.object = objects
        self._objects = context.objects
        self._tokens = context.tokens
        self._unknown_drivers_attach = unknown_drivers_attach

    def driver_to_set_up(self, spec: VolumeSpec, what: str) -> Driver:
        """The driver of a volume that can be set up here: registered, and of a kind that this node can use."""
        driver = self.drivers.require(spec.csi_driver, what)
        known = self.object(driver.name)
        mode = vol_data.PERSISTENT if inline_source(spec) is None else vol_data.EPHEMERAL
        modes = known.spec.volume_lifecycle_modes if known is not None else (vol_data.PERSISTENT,)
        if mode not in modes:
            why = f"driver {driver.name!r} does not serve volumes of mode {mode!r}"
            raise NotYet(what, why=why, next_step=f"List the mode in the CSIDriver object {driver.name!r}")
        attaches = known.spec.attach_required if known is not None else self._unknown_drivers_attach
        if attaches and mode == vol_data.PERSISTENT:
            why = f"volumes of driver {driver.name!r} must be attached first, which this node does not do"
            next_step = f"Create a CSIDriver object {driver.name!r} with attachRequired: false if it needs no attaching"
            raise NotYet(what, why=why, next_step=next_step)
        return driver

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

    def tokens(self, pod: Pod, driver: CSIDriver | None) -> Mapping[str, IssuedToken]:
        """The tokens of a pod's service account that its driver asks for, by audience."""
        wanted = driver.spec.token_requests if driver is not None else ()
        if not wanted:
            return {}
        what = f"cannot get tokens for pod {pod.key!r}"
        if self._tokens is None:
            raise NotYet(what, why="nobody issues tokens here")
        try:
            uid = account_uid(self._objects, pod)
            return {
                each.audience: self._tokens.token(
                    TokenRequest(
                        namespace=pod.metadata.namespace,
                        service_account=account_name(pod),
                        service_account_uid=uid,
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
