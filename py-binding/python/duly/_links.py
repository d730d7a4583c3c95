"""The current folder by the link that leads to it (`current -> releases/7`).

A process that is started later by that name runs the release to which the link leads by then.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def kept(paths: Iterable[str]) -> str | None:
    """Give a name of the current folder that has a link in it; None if nobody has said one.

    That is what the shell says (`PWD`), or else the link in one of these paths, if it is absolute, that leads nearest.
    """
    with suppress(OSError):  # it is gone
        here = str(Path.cwd())
        named = os.environ.get("PWD", "")
        if named.startswith("/") and named != here and os.path.realpath(named) == here:
            return named
        link = target = ""
        for path in map(Path, paths):
            for name in (path, *path.parents) if path.is_absolute() else ():
                leads_to = os.path.realpath(name) if name.is_symlink() else ""
                if len(leads_to) > len(target) and f"{here}/".startswith(f"{leads_to}/"):
                    link, target = str(name), leads_to
        if link:
            return link + here[len(target) :]
    return None
