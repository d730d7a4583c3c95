"""The whole demo, as `make demo` runs it: its end is a page for those who sit at a terminal."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.error import URLError
from urllib.request import HTTPCookieProcessor, build_opener, urlopen

import pytest
from support import until
from terminal import Terminal

ROOT = Path(__file__).resolve().parent.parent
DEMO = [sys.executable, "-m", "demo.run"]
SECONDS = 120
ALL_IS_WELL = "nothing lost, nothing early, nothing done twice"
ADDRESS = re.compile(rb"http://127\.0\.0\.1:\d+/sign-in\?token=[0-9a-f]+")


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the demo puts its files; all that it starts knows it by its environment."""
    # That of pytest is too long for the path of a socket.
    with tempfile.TemporaryDirectory(prefix="duly-") as name:
        monkeypatch.setenv("TMPDIR", name)
        monkeypatch.setenv("PHP_INI_SCAN_DIR", f":{ROOT / 'build/php.d'}")
        monkeypatch.setenv("DULY_WEB_PASSWORD", "of another page")
        monkeypatch.chdir(ROOT)
        yield Path(name)


def left_of(folder: Path) -> list[str]:
    """Files, and processes with their command lines."""
    left = [str(path) for path in folder.iterdir()]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            said = command + (process / "environ").read_bytes()
        except OSError:
            continue
        if process.name != str(os.getpid()) and str(folder).encode() in said:
            left.append(f"{process.name}: {command!r}")
    return left


def nothing_is_left_of(folder: Path) -> None:
    # Whoever watched over the server ends a moment after it.
    until(lambda: not left_of(folder), f"left: {left_of(folder)}", 5)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are looked for in /proc")
@pytest.mark.parametrize("by", ["a key", "make and a key", "two keys", "a key to quit", "a signal"])
def test_on_a_terminal_it_ends_with_a_page_until_ctrl_c(folder: Path, tmp_path: Path, by: str) -> None:
    command = DEMO
    if by == "make and a key":
        (tmp_path / "Makefile").write_text(f"story:\n\t@{' '.join(DEMO)}\n", "utf-8")
        command = [shutil.which("make") or "make", "-f", str(tmp_path / "Makefile"), "story"]
    terminal = Terminal(command)
    try:
        until(lambda: b"Ctrl-C stops" in terminal.said or terminal.has_ended(), "there is no page", SECONDS)
        said = terminal.said.decode()
        assert ALL_IS_WELL in said, said
        found = ADDRESS.search(terminal.said)
        assert found, said
        browser = build_opener(HTTPCookieProcessor(CookieJar()))
        home = found[0].decode().partition("/sign-in")[0]
        assert ">Overview<" in browser.open(found[0].decode(), timeout=10).read().decode()
        for state, number in (("delayed", 3), ("reserved", 1), ("failed", 1)):
            page = browser.open(f"{home}/queue?queue=orders&state={state}", timeout=10).read().decode()
            assert page.count('class="id"') == number, state
        page = browser.open(f"{home}/queue?queue=letters", timeout=10).read().decode()
        assert page.count('class="id"') == 3
        if by == "a signal":
            os.kill(terminal.pid, signal.SIGTERM)
        else:
            terminal.press({"two keys": "\x03\x03", "a key to quit": "\x1c"}.get(by, "\x03"))
        assert terminal.end() == 0, terminal.said.decode()
        assert "stopped; nothing is left running" in terminal.said.decode()
        with pytest.raises(URLError):
            urlopen(home, timeout=10)
        nothing_is_left_of(folder)
    finally:
        terminal.close()


def test_without_a_terminal_it_ends_with_the_story(folder: Path) -> None:
    ended = subprocess.run(DEMO, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
    assert ALL_IS_WELL in ended.stdout
    assert "http://127.0.0.1:" in ended.stdout  # the shop
    assert "sign-in" not in ended.stdout
    nothing_is_left_of(folder)


@pytest.mark.parametrize(("shell", "is_wanted"), [("", True), ("</dev/null", False), ("| cat", False)])
@pytest.mark.usefixtures("folder")
def test_a_page_needs_a_terminal_on_both_sides(shell: str, *, is_wanted: bool) -> None:
    said = "from demo import page; print('wanted:', page.is_wanted())"
    terminal = Terminal(["/bin/sh", "-c", f'{sys.executable} -c "{said}" {shell}'])
    try:
        assert terminal.end() == 0
        assert f"wanted: {is_wanted}".encode() in terminal.said
    finally:
        terminal.close()
