"""The command `duly` as a function."""

from __future__ import annotations

from collections.abc import Sequence

from duly._core import _console


def command(arguments: Sequence[str]) -> int:
    """Run a command of `duly` other than `worker`, with what stands behind the name of the program.

    It writes to the output and the error output of the process, and not to `sys.stdout`. Other threads go on meanwhile.

    Ctrl-C, and SIGTERM or SIGHUP where the program has a handler, end it: between two calls to the server it stops, and
    says how much was done; a question is not answered. Then Python gets the signal, so that Ctrl-C raises
    KeyboardInterrupt. `web`, `top`, `bridge` and `bench` take these signals themselves, and Python does not get them.

    Args:
        arguments: such as `["counts", "orders"]`, or `["bridge", "--help"]`.

    Returns:
        The exit status: 0 if all went well, 1 if not, 2 for a wrong command line, 130 after Ctrl-C, 143 after SIGTERM,
        129 after SIGHUP.

    """
    return _console(list(arguments))
