"""Which huge pages an emptyDir gets: what its medium and its pod ask for, and what this machine has."""

from __future__ import annotations

from mooring.errors import Refused
from mooring.host.interface import Host, MountFacts
from mooring.kube.objects.pod import Pod
from mooring.kube.quantity import parse_quantity

MEDIUM = "HugePages"
_SIZED = f"{MEDIUM}-"
_RESOURCE = "hugepages-"
_POOLS = "/sys/kernel/mm/hugepages"
_MEBIBYTE = 2**20


def is_medium(medium: str) -> bool:
    return medium == MEDIUM or medium.startswith(_SIZED)


def page_size(pod: Pod, volume: str, medium: str) -> int:
    """The size in bytes of the pages that a volume is made of; `Refused` when medium and requests do not tell one."""
    what = f"cannot set up volume {volume!r}"
    requested = _requested_sizes(pod)
    if not requested:
        raise Refused(
            what,
            why=f"its medium is {medium!r}, and no container requests huge pages",
            next_step="Add a limit such as hugepages-2Mi to a container",
        )
    if medium == MEDIUM:
        if len(requested) > 1:
            listed = ", ".join(size_name(size) for size in sorted(requested))
            next_step = f"Write the size in the medium, as in {_SIZED}{size_name(min(requested))}"
            raise Refused(what, why=f"containers request huge pages of several sizes: {listed}", next_step=next_step)
        return next(iter(requested))
    size = _sized(medium, what)
    if size not in requested:
        why = f"its medium is {medium!r}, and no container requests huge pages of that size"
        raise Refused(what, why=why, next_step=f"Add a limit hugepages-{size_name(size)} to a container")
    return size


def _sized(medium: str, what: str) -> int:
    try:
        size = parse_quantity(medium.removeprefix(_SIZED)).value
    except ValueError as error:
        raise Refused(what, why=f"unknown storage medium {medium!r}: {error}") from error
    if size <= 0:
        raise Refused(what, why=f"unknown storage medium {medium!r}")
    return size


def _requested_sizes(pod: Pod) -> set[int]:
    holders = [*pod.spec.containers, *pod.spec.init_containers]
    every = [holder.resources.requests for holder in holders]
    if pod.spec.resources is not None:
        every.append(pod.spec.resources.requests)
    found: set[int] = set()
    for requests in every:
        for name, amount in requests.items():
            if name.startswith(_RESOURCE) and parse_quantity(amount).value > 0:
                found.add(parse_quantity(name.removeprefix(_RESOURCE)).value)
    return found


def size_name(size: int) -> str:
    """A page size as Kubernetes writes it: `2Mi`, `1Gi`."""
    for unit, name in ((2**30, "Gi"), (_MEBIBYTE, "Mi"), (2**10, "Ki")):
        if size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)


def mounted_page_size(mount: MountFacts) -> int:
    """The page size of a hugetlbfs, from its mount options: `pagesize=1024M` is 1Gi. `Refused` when none tells."""
    for option in mount.options:
        name, _, value = option.partition("=")
        if name == "pagesize":
            try:
                return parse_quantity(value if value.endswith("i") or value.isdecimal() else f"{value}i").value
            except ValueError:
                break
    raise Refused(f"cannot tell the page size of {mount.path!r}", why="its mount options do not name one")


def check_pool(host: Host, volume: str, size: int) -> None:
    """Refuse pages that this machine does not have: a mount of them would kill whoever writes to it."""
    what, pool = f"cannot set up volume {volume!r}", f"{_POOLS}/hugepages-{size // 1024}kB"
    try:
        reserved = int(host.read_file(f"{pool}/nr_hugepages"))
    except FileNotFoundError as error:
        why = f"this machine has no huge pages of {size_name(size)}"
        raise Refused(what, why=why, next_step=f"Use a size of those in {_POOLS}") from error
    if reserved == 0 and _overcommitted(host, pool) == 0:
        raise Refused(
            what,
            why=f"this machine has set no huge pages of {size_name(size)} aside: nr_hugepages is 0",
            next_step=f"Write how many to {pool}/nr_hugepages; it is tried again by itself",
        )


def _overcommitted(host: Host, pool: str) -> int:
    try:
        return int(host.read_file(f"{pool}/nr_overcommit_hugepages"))
    except FileNotFoundError:
        return 0
