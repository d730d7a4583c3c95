"""The command `duly` as a function."""

from __future__ import annotations

from collections.abc import Sequence

from duly._core import _console


def command(arguments: Sequence[str]) -> int:
    """Run a command of `duly` other than `worker`, with what stands behind the name of the program.

    It writes to the output and the error output of the process, and not to `sys.stdout`. Other threads go on meanwhile.

    Args:
        arguments: such as `["counts", "orders"]`, or `["bridge", "--help"]`.

    Returns:
        The exit status: 0 if all went well, 1 if not, 2 for a wrong command line, 130 after Ctrl-C.

    """
    return _console(list(arguments))
