"""The current folder by the link that leads to it (`current -> releases/7`).

A process that is started later by that name runs the release to which the link leads by then.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_MOST_LINKS = 40
"""As many are followed as Linux follows."""


@dataclass(frozen=True)
class Link:
    """A link, and where it leads."""

    name: str
    target: str

    def renamed(self, text: str) -> str:
        """Name by the link what has the name of where that leads, as the interpreter in scripts that pip writes."""
        for target in dict.fromkeys([self.target, self._next()]):
            # Not the end of another path, as `/app` is one of `/opt/app`.
            whole_path = rf"(?<![\w.~/-]){re.escape(target)}(?=/|\Z)"
            text = re.sub(whole_path, lambda _: self.name, text)
        return text

    def _next(self) -> str:
        """Where it leads by other links that stay in the name, such as one above both."""
        try:
            return os.path.normpath(Path(self.name).parent / Path(self.name).readlink())
        except OSError:
            return self.target


def of_current_folder(paths: Iterable[str]) -> Link | None:
    """Find the link by which somebody has named the current folder; None if nobody has.

    That is in what the shell says (`PWD`) or in one of these paths, if it is absolute: that which leads nearest.
    """
    try:
        here = str(Path.cwd())
    except OSError:  # it is gone
        return None
    shells = os.environ.get("PWD", "")
    nearest = Link("", "/")
    for path in _each([shells, *paths] if os.path.realpath(shells) == here else paths):
        with suppress(OSError):  # nobody may look there
            leads_to = os.path.realpath(path) if path.is_symlink() else ""
            if len(leads_to) > len(nearest.target) and f"{here}/".startswith(f"{leads_to}/"):
                nearest = Link(str(path), leads_to)
    return nearest if nearest.name else None


def _each(paths: Iterable[str]) -> Iterator[Path]:
    """Give the absolute ones with the folders above, and those to which they lead if they are links themselves."""
    for path in map(Path, paths):
        for _ in range(_MOST_LINKS):
            if not path.is_absolute():
                break
            yield path
            yield from path.parents
            try:
                path = path.parent / path.readlink()
            except (OSError, ValueError):
                break
