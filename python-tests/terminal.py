"""A terminal with a program in it: what it shows, as far as `duly top` writes it."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import struct
import termios
import threading
from contextlib import suppress

from support import until

# Control sequences, such as `ESC [ 2 ; 1 H`, and what stands between them.
_PART = re.compile(rb"\x1b\[([?0-9;]*)([A-Za-z])|\x1b.|([\x00-\x1f])|([^\x00-\x1f\x1b]+)", re.DOTALL)


class Terminal:
    """Runs a program in a pseudo terminal of its own, in a session of its own."""

    def __init__(self, command: list[str], *, columns: int = 160, rows: int = 24) -> None:
        self.columns, self.rows = columns, rows
        self._shown = [[" "] * columns for _ in range(rows)]
        self._row = self._column = 0
        self._change = threading.Lock()
        """Held while what is shown changes."""
        self.said = b""
        """Everything that it has written."""
        self.is_alternate = False
        """Does the program have the whole screen?"""
        self.is_cursor_hidden = False
        self._rest = b""
        self.status: int | None = None
        pid, self._ours = os.forkpty()
        if pid == 0:
            os.execve(command[0], command, {**os.environ, "TERM": "xterm"})
        self.pid = pid
        self._settings = termios.tcgetattr(self._ours)
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        # On Linux the end of the program is an error.
        with suppress(OSError):
            while data := os.read(self._ours, 1 << 16):
                self.said += data
                with self._change:
                    self._take(data)

    def _take(self, data: bytes) -> None:
        data = self._rest + data
        # A sequence, or a character, may be cut.
        whole = len(data)
        cut = re.search(rb"\x1b(\[[?0-9;]*)?$|[\xc0-\xff][\x80-\xbf]*$", data)
        if cut is not None:
            whole = cut.start()
        self._rest = data[whole:]
        for part in _PART.finditer(data[:whole]):
            if part[4] is not None:
                self._write(part[4].decode(errors="replace"))
            elif part[3] == b"\r":
                self._column = 0
            elif part[3] == b"\n":
                self._row = min(self._row + 1, self.rows - 1)
            elif part[2] is not None:
                self._obey(part[1].decode(), part[2].decode())

    def _write(self, text: str) -> None:
        for character in text:
            if self._row < self.rows and self._column < self.columns:
                self._shown[self._row][self._column] = character
            self._column += 1

    def _obey(self, given: str, verb: str) -> None:
        numbers = [int(number) if number.isdigit() else 0 for number in given.split(";")]
        if verb == "H":
            self._row, self._column = max(numbers[0], 1) - 1, max(numbers[-1] if len(numbers) > 1 else 1, 1) - 1
        elif verb == "J":
            self._shown = [[" "] * self.columns for _ in range(self.rows)]
        elif verb in "hl" and given == "?1049":
            self.is_alternate = verb == "h"
        elif verb in "hl" and given == "?25":
            self.is_cursor_hidden = verb == "l"

    def __str__(self) -> str:
        return str(self.lines)

    @property
    def lines(self) -> list[str]:
        return ["".join(line).rstrip() for line in self._shown]

    def line(self, start: str) -> str:
        """Give the line that begins so, or nothing."""
        return next((line for line in self.lines if line.startswith(start)), "")

    def shows(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    def wait_for(self, text: str) -> None:
        until(lambda: self.shows(text), f"the terminal does not show {text!r}: {self.lines}")

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        with self._change:
            self.columns, self.rows = columns, rows
            self._shown = [[" "] * columns for _ in range(rows)]
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def is_restored(self) -> bool:
        return (
            not self.is_alternate
            and not self.is_cursor_hidden
            and termios.tcgetattr(self._ours)[:4] == self._settings[:4]
        )

    def end(self) -> int:
        """Wait for its end, and give its exit status; of a signal the number below zero."""
        until(self.has_ended, f"the program does not end: {self.lines}")
        self._reader.join(10)
        assert self.status is not None
        return self.status

    def has_ended(self) -> bool:
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def close(self) -> None:
        if not self.has_ended():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self._reader.join(10)
        os.close(self._ours)
