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

    def renamed(self, text: str) -> str:
        """Name by these links what lies where they lead, as the interpreter in scripts that pip writes."""
        if text.startswith("/") and ":" not in text:
            return self._by_link(text)
        return _PATH_IN_TEXT.sub(lambda path: self._by_link(path[0], is_in_text=True), text)

    def _by_link(self, path: str, *, is_in_text: bool = False) -> str:
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
    names: dict[str, str] = {}
    for path in _each([shells, *paths] if os.path.realpath(shells) == here else paths):
        with suppress(OSError):  # nobody may look there
            leads_to = os.path.realpath(path) if path.is_symlink() else ""
            if leads_to.strip("/") and f"{here}/".startswith(f"{leads_to}/"):
                names.setdefault(leads_to, str(path))
    names = _of_interpreter() | names
    return Links(names) if names else None


def _of_interpreter() -> dict[str, str]:
    """Give the folder of this Python as its program was named, as `current/.venv` of `current/.venv/bin/duly`.

    The first line of such a program names its interpreter by the folder in which it was installed.
    """
    program, real = Path(getattr(sys, "argv", [""])[0]).absolute().parent, Path(sys.executable).parent
    leads_to = os.path.realpath(real.parent)
    is_same = program.name == real.name and os.path.realpath(program.parent) == leads_to
    return {leads_to: str(program.parent)} if is_same and program != real else {}


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
