"""What an API server accepts although it cannot work: worth a warning, and no reason to refuse the file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mooring.kube.field_errors import FieldPath, FieldProblem, quoted
from mooring.kube.name_rules import broken_data_key
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import KeyToPath, Volume
from mooring.kube.pod_validation import located_containers
from mooring.kube.quantity import parse_quantity

_HUGE_PAGES = re.compile(r"HugePages(?:-(.+))?")


def advise(obj: KubernetesObject) -> list[FieldProblem]:
    """What will keep a valid object from working, as far as the object alone shows it."""
    if not isinstance(obj, Pod):
        return []
    advice: list[FieldProblem] = []
    for position, volume in enumerate(obj.spec.volumes):
        advice.extend(_volume_advice(volume, ("spec", "volumes", position)))
    for path, container in located_containers(obj.spec):
        for position, mount in enumerate(container.volume_mounts):
            if ":" in mount.mount_path:
                at = (*path, "volumeMounts", position, "mountPath")
                why = f'{quoted(mount.mount_path)} contains ":", which container runtimes do not take'
                advice.append(FieldProblem(path=at, why=why, next_step='Write a path without ":"'))
    return advice


def _volume_advice(volume: Volume, path: FieldPath) -> Iterator[FieldProblem]:
    if volume.empty_dir is not None and not _is_known_medium(volume.empty_dir.medium):
        why = f"the medium {quoted(volume.empty_dir.medium)} is not known"
        next_step = 'Write "", "Memory", "HugePages" or, for example, "HugePages-2Mi"'
        yield FieldProblem(path=(*path, "emptyDir", "medium"), why=why, next_step=next_step)
    if volume.config_map is not None:
        yield from _key_advice(volume.config_map.items, (*path, "configMap"))
    if volume.secret is not None:
        yield from _key_advice(volume.secret.items, (*path, "secret"))
    if volume.projected is None:
        return
    for position, source in enumerate(volume.projected.sources):
        at = (*path, "projected", "sources", position)
        if source.config_map is not None:
            yield from _key_advice(source.config_map.items, (*at, "configMap"))
        if source.secret is not None:
            yield from _key_advice(source.secret.items, (*at, "secret"))
        if not source.source_names:
            yield FieldProblem(path=at, why="it names no source and adds nothing", next_step="Remove it")


def _key_advice(items: tuple[KeyToPath, ...], path: FieldPath) -> Iterator[FieldProblem]:
    for position, item in enumerate(items):
        if item.key and (why := broken_data_key(item.key)):
            at = (*path, "items", position, "key")
            yield FieldProblem(path=at, why=f"no object can have this key: {why}", next_step="Correct the key")


def _is_known_medium(medium: str) -> bool:
    if medium in ("", "Memory"):
        return True
    huge = _HUGE_PAGES.fullmatch(medium)
    if huge is None:
        return False
    try:
        return huge[1] is None or parse_quantity(huge[1]).nano > 0
    except ValueError:
        return False
