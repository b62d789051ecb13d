"""`$(NAME)` in the texts of a container."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")


def expand(text: str, value_of: Callable[[str], str]) -> str:
    """The text with every `$(NAME)` replaced by its value, and `$$` by a dollar sign."""
    return _REFERENCE.sub(lambda found: "$" if found[1] is None else value_of(found[1]), text)


def expand_known(text: str, variables: Mapping[str, str]) -> str:
    """The expanded text; references to names that are not defined stay as they are written."""
    return expand(text, lambda name: variables.get(name, f"$({name})"))


def expand_completely(text: str, variables: Mapping[str, str]) -> tuple[str, list[str]]:
    """The expanded text, and the names, sorted, that it refers to and that have no value or an empty one."""
    missing: set[str] = set()

    def value_of(name: str) -> str:
        value = variables.get(name, "")
        if not value:
            missing.add(name)
        return value

    return expand(text, value_of), sorted(missing)
