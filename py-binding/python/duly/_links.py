"""The current folder by the link that leads to it (`current -> releases/7`).

A process that is started later by that name runs the release to which the link leads by then.
"""

from __future__ import annotations

import os
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
        return self.name if text == self.target else text.replace(f"{self.target}/", f"{self.name}/")


def of_current_folder(paths: Iterable[str]) -> Link | None:
    """Find the link by which somebody has named the current folder; None if nobody has.

    That is in what the shell says (`PWD`), or else in one of these paths, if it is absolute: that which leads nearest.
    """
    try:
        here = str(Path.cwd())
    except OSError:  # it is gone
        return None
    shells = os.environ.get("PWD", "")
    if shells.startswith("/") and shells != here and os.path.realpath(shells) == here:
        return _without_common_end(Path(shells), Path(here))
    nearest = Link("", "")
    for path in _each(paths):
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


def _without_common_end(name: Path, target: Path) -> Link:
    while name.name == target.name:
        name, target = name.parent, target.parent
    return Link(str(name), str(target))
