"""The current folder, and that of the interpreter, by the links that lead to them (`current -> releases/7`).

A process that is started later by that name runs the release to which the link leads by then.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_MOST_LINKS = 40
"""As many are followed as Linux follows."""
_PATH_IN_TEXT = re.compile(r"""(?<![\w.~/+@-])/(?!/)[^\s'"`=:,;()\[\]{}<>|&$\\]*""")


@dataclass(frozen=True)
class Links:
    """The links that lead to the current folder, to folders above it, or to the folder of the interpreter."""

    names: dict[str, str]
    """By where they lead, without any link."""
    interpreter: tuple[str, str] | None = None
    """The folder of this Python as it knows itself, and as its program was named."""

    def renamed(self, text: str) -> str:
        """Name by these links what lies where they lead, as the interpreter in scripts that pip writes."""
        if text.startswith("/") and ":" not in text:
            return self._by_link(text)
        return _PATH_IN_TEXT.sub(lambda path: self._by_link(path[0], is_in_text=True), text)

    def _by_link(self, path: str, *, is_in_text: bool = False) -> str:
        known, named = self.interpreter or ("", "")
        if known and f"{path}/".startswith(f"{known}/") and not (is_in_text and shlex.quote(named) != named):
            path = named + path[len(known) :]
        folder = path
        # By where each leads: a folder has several names where there are links above it.
        while folder.strip("/"):
            name = self.names.get(os.path.realpath(folder))
            if name is not None:
                is_named = Path(folder).is_symlink()
                would_break = is_in_text and shlex.quote(name) != name
                return path if is_named or would_break else name + path[len(folder) :]
            folder = folder.rpartition("/")[0]
        return path


def to_here(paths: Iterable[str]) -> Links | None:
    """Find the links by which somebody has named the current folder, folders above it, or that of the interpreter.

    They are in what the shell says (`PWD`) and in those of these paths that are absolute. None if there are none.
    """
    try:
        here = str(Path.cwd())
    except OSError:  # it is gone
        return None
    shells = os.environ.get("PWD", "")
    is_here = shells != "" and os.path.realpath(shells) == here
    names: dict[str, str] = {}
    for path in _each([shells, *paths] if is_here else paths):
        for folder in (path, *path.parents):
            with suppress(OSError):  # nobody may look there
                leads_to = os.path.realpath(folder) if folder.is_symlink() else ""
                if leads_to.strip("/") and f"{here}/".startswith(f"{leads_to}/"):
                    names.setdefault(leads_to, str(folder))
    interpreter = None
    with suppress(OSError):
        interpreter = _interpreter(Path(shells if is_here else here))
    return Links(names, interpreter) if names or interpreter else None


def _interpreter(here: Path) -> tuple[str, str] | None:
    """Give the folder of this Python as it knows itself, and as its program was named by a link.

    The first line of `current/.venv/bin/duly` names the folder in which pip has written it.
    """
    known = Path(sys.executable).parent
    leads_to = os.path.realpath(known.parent)
    program = here / (getattr(sys, "argv", None) or [""])[0]
    for path in _each([str(_without_ups(program))]):
        # Python finds no environment by a path that has `..` in it.
        named = os.path.normpath(path.parent.parent)
        if path.parent.name == known.name and os.path.realpath(named) == leads_to and named != leads_to:
            return None if named == str(known.parent) else (str(known.parent), named)
    return None


def _without_ups(path: Path) -> Path:
    """Leave out `folder/..`, but not behind a link, which leads elsewhere."""
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts and parts[-1] != ".." and not Path(*parts).is_symlink():
            parts.pop()
        else:
            parts.append(part)
    return Path(*parts)


def _each(paths: Iterable[str]) -> Iterator[Path]:
    """Give the absolute ones, and those to which they lead link by link, the last one in each path first."""
    for path in map(Path, paths):
        for _ in range(_MOST_LINKS):
            if not path.is_absolute():
                break
            yield path
            try:
                link = next((folder for folder in (path, *path.parents) if folder.is_symlink()), None)
                if link is None:
                    break
                path = link.parent / link.readlink() / path.relative_to(link)
            except (OSError, ValueError):
                break
