"""Whether this process answers web requests, which must not wait for long while the server is away.

To have imported a web server says nothing: a worker imports the modules of its web application, too. A thread that runs one is what
counts: its stack shows it, also while it imports the application. uWSGI and mod_wsgi are no Python code, but have modules that
only exist inside them.
"""

from __future__ import annotations

import sys
from types import FrameType

_SERVERS = frozenset({"daphne", "granian", "gunicorn", "hypercorn", "uvicorn", "waitress"})
_SERVING = frozenset({"werkzeug.serving", "django.core.servers.basehttp"})
"""Of packages that are much else."""


def serves_requests() -> bool:
    """Tell whether a web server runs in this process. Not beside a worker, whose jobs have the time to wait."""
    modules = set(_running())
    if "duly.worker" in modules:
        return False
    if "uwsgi" in sys.modules or hasattr(sys.modules.get("mod_wsgi"), "process_group"):
        return True
    return any(name in _SERVING or name.partition(".")[0] in _SERVERS for name in modules)


def _running() -> list[str]:
    """Give the modules of the code that all threads are in."""
    names = []
    for top in sys._current_frames().values():
        frame: FrameType | None = top
        while frame is not None:
            name = frame.f_globals.get("__name__")
            if isinstance(name, str):
                names.append(name)
            frame = frame.f_back
    return names
