"""Which proxy leads to a server, as Go reads HTTPS_PROXY and NO_PROXY: Kubernetes' own programs do so, too."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from mooring.errors import InvalidInput

_KNOWN = ("http", "https", "socks5", "socks5h")
_USUAL_PORTS = {"http": "80", "https": "443"}

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class _Host:
    """The server in question. Its address is None where it has a name."""

    name: str
    address: _Address | None
    port: str


def proxy_from_environment(server: str, environment: Mapping[str, str]) -> str:
    """The URL of the proxy that the environment names for a server, or nothing; never one for the loopback."""
    url = urlsplit(server)
    variable = f"{url.scheme.upper()}_PROXY"
    written = _value(environment, variable)
    host = _Host(
        name=(url.hostname or "").lower().rstrip("."),
        address=_address(url.hostname or ""),
        port=str(url.port or _USUAL_PORTS.get(url.scheme, "")),
    )
    if not written or _is_here(host) or _is_excepted(host, _value(environment, "NO_PROXY")):
        return ""
    proxy = written if urlsplit(written).scheme in _KNOWN and "://" in written else f"http://{written}"
    if why := unusable(proxy):
        next_step = "Name one like http://host:3128, or list the API server in NO_PROXY"
        raise InvalidInput(f"cannot use the proxy that {variable} names", why=why, next_step=next_step)
    return proxy


def unusable(proxy: str) -> str:
    """Why a proxy cannot be used; empty for one that can. Its URL may hold a password, and does not show."""
    match urlsplit(proxy).scheme:
        case "http":
            return ""
        case "https":
            return "the way to a proxy cannot be encrypted: it would have to prove itself by the cluster's authority"
        case _:
            return "it is no HTTP proxy"


def _value(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.lower()) or ""


def _is_here(host: _Host) -> bool:
    return host.name == "localhost" or (host.address is not None and host.address.is_loopback)


def _is_excepted(host: _Host, exceptions: str) -> bool:
    """Whether NO_PROXY names a host: * is all, else networks, addresses and domains, perhaps each with a port."""
    return any(_matches(host, each.strip().lower()) for each in exceptions.split(",") if each.strip())


def _matches(host: _Host, exception: str) -> bool:
    if exception == "*":
        return True
    if (network := _network(exception)) is not None:
        return host.address is not None and host.address in network
    name, port = _split(exception)
    if not name or port not in ("", host.port):
        return False
    if (address := _address(name)) is not None:
        return host.address == address
    name = name.removeprefix("*")
    if name.startswith("."):
        return host.name.endswith(name)
    return host.name == name or host.name.endswith(f".{name}")


def _split(exception: str) -> tuple[str, str]:
    """A name or address and its port; an address of IPv6 has colons of its own, and brackets where a port follows."""
    name, colon, port = exception.rpartition(":")
    if not colon or (":" in name and not name.endswith("]")) or exception.endswith("]"):
        name, port = exception, ""
    return name.removeprefix("[").removesuffix("]"), port


def _network(text: str) -> _Network | None:
    if "/" not in text:
        return None
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _address(text: str) -> _Address | None:
    """An address; one of IPv4 that is written as one of IPv6 is the same."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return (isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped) or found
