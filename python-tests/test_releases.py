"""Releases behind a link: after a reload `duly worker` runs the one to which the link leads."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duly
import pytest
from duly import _links
from support import Server, Start, until

APP = """
    import os, sys
    import duly

    sys.path.append(sys.prefix + "/packages")
    import lib

    app = duly.App(os.environ["URL"], prefix=os.environ["PREFIX"])

    @app.task("version", queue="orders")
    def version() -> None:
        with open(os.environ["NOTES"], "a") as notes:
            notes.write(f"{number} {lib.version}\\n")
"""


@pytest.fixture
def release(tmp_path: Path) -> Callable[[int, str], None]:
    """Deploy this release, with an environment in this folder."""

    def deploy(number: int, environment: str) -> None:
        folder = tmp_path / f"releases/{number}"
        folder.mkdir(parents=True)
        made = folder
        if environment:
            made = tmp_path / f"environments/{number}"
            (folder / environment).symlink_to(made)
        (made / "bin").mkdir(parents=True)
        (made / "bin/python").symlink_to(sys.executable)
        (made / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
        # As pip writes it: with the interpreter of the environment.
        (made / "bin/duly").write_text(f"#!{made}/bin/python\nfrom duly.cli import main\nmain()\n")
        (made / "bin/duly").chmod(0o755)
        (made / "packages").mkdir()
        (made / "packages/lib.py").write_text(f"version = {number}\n")
        (folder / "shop.py").write_text(textwrap.dedent(APP).replace("{number}", str(number)))
        (tmp_path / "next").symlink_to(folder)
        (tmp_path / "next").replace(tmp_path / "current")

    return deploy


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def run(*command: str, cwd: Path, env: dict[str, str]) -> subprocess.Popen[str]:
        started.append(subprocess.Popen(command, cwd=cwd, env=env, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("environment", ["", ".venv"])
@pytest.mark.parametrize("way", ["a shell", "a service"])
def test_a_reload_runs_the_release_to_which_the_link_leads(
    start: Start,
    release: Callable[[int, str], None],
    client: duly.Client,
    server: Server,
    prefix: str,
    tmp_path: Path,
    way: str,
    environment: str,
) -> None:
    current, notes = tmp_path / "current", tmp_path / "notes"
    notes.touch()
    orders = client.queue("orders")
    package = str(Path(duly.__file__).parent.parent)
    variables = {**os.environ, "URL": server.url, "PREFIX": prefix, "NOTES": str(notes), "PYTHONPATH": package}
    variables.pop("PWD", None)
    command = [str(current / environment / "bin/duly")]
    if way == "a shell":
        variables["PWD"] = str(current)
        command = [str(Path(environment) / "bin/python"), "-m", "duly"]
    release(1, environment)
    worker = start(*command, "worker", "shop:app", "-p", "2", cwd=current, env=variables)

    def runs(number: int) -> bool:
        orders.push({}, name="version")
        return notes.read_text().endswith(f"{number} {number}\n")

    until(lambda: runs(1), "the first release does not run")
    release(2, environment)
    for folder in tmp_path.glob("*/1"):
        shutil.rmtree(folder)
    worker.send_signal(signal.SIGHUP)
    until(lambda: runs(2), "the second release does not run")
    worker.send_signal(signal.SIGTERM)
    _, said = worker.communicate(timeout=60)
    assert worker.returncode == 0, said


@dataclass
class Folders:
    """Folders below `root` with links to them, and a command that is started there."""

    root: Path
    monkeypatch: pytest.MonkeyPatch

    def link(self, name: str, target: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).symlink_to(target.replace("ROOT", str(self.root)))

    def named(self, folder: str, *words: str, pwd: str = "") -> list[str]:
        """Name the folder and the words by links, for a process that is started in the folder."""
        (self.root / folder).mkdir(parents=True, exist_ok=True)
        self.monkeypatch.chdir(self.root / folder)
        self.monkeypatch.setenv("PWD", f"{self.root}/{pwd or folder}")
        words = tuple(word.replace("ROOT", str(self.root)) for word in words)
        links = _links.to_here(words)
        texts = [str(Path.cwd()), *words]
        return [(links.renamed(text) if links else text).replace(str(self.root), "ROOT") for text in texts]


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Folders:
    return Folders(tmp_path.resolve(), monkeypatch)


def test_the_link_of_the_shell_or_of_a_word_names_the_folder(folders: Folders) -> None:
    folders.link("srv/current", "releases/7")
    assert folders.named("srv/releases/7", "x", pwd="srv/current") == ["ROOT/srv/current", "x"]
    assert folders.named("srv/releases/7/bin", pwd="srv/current/bin") == ["ROOT/srv/current/bin"]
    assert folders.named("srv/releases/7", "ROOT/srv/current/x") == ["ROOT/srv/current", "ROOT/srv/current/x"]
    folders.link("bin/duly", "../srv/current/bin/duly")
    assert folders.named("srv/releases/7", "ROOT/bin/duly")[0] == "ROOT/bin/../srv/current", "to a program"
    folders.link("loop", "loop")
    others = ["ROOT/srv/releases/7/x", "/usr/bin/env", "ROOT/loop/x", "/" + 5000 * "x"]
    assert folders.named("srv/releases/7", *others) == ["ROOT/srv/releases/7", *others], "no link leads there"


def test_what_lies_in_the_release_is_named_by_the_link(folders: Folders) -> None:
    folders.link("srv/current", "releases/7")
    (folders.root / "srv/releases/7").mkdir(parents=True)
    words = [
        "ROOT/srv/releases/7/.venv/bin/python",
        "--log-config=ROOT/srv/releases/7/log.json",
        "sys.path.append('ROOT/srv/releases/7')",
        "ROOT/a:ROOT/srv/releases/7/lib:ROOT/b",
    ]
    others = [
        "ROOT/srv/releases/70/x",
        "redis://hostROOT/srv/releases/7/x",
        "unix://ROOT/srv/releases/7/x",
        "../7",
        "/",
        "",
    ]
    by_link = [word.replace("releases/7", "current") for word in words]
    assert folders.named("srv/releases/7", *words, *others, pwd="srv/current")[1:] == [*by_link, *others]


def test_each_folder_has_its_own_link(folders: Folders) -> None:
    in_release = "ROOT/srv/releases/7/.venv/bin/python"
    by_link = "ROOT/srv/current/.venv/bin/python"
    folders.link("srv/current", "releases/7")
    # A way to a folder of the release, from outside and within it.
    folders.link("app", "ROOT/srv/current/services/app")
    assert folders.named("srv/releases/7/services/app", in_release, pwd="app") == ["ROOT/app", by_link]
    folders.link("srv/releases/7/short", "services/app")
    named = folders.named("srv/releases/7/services/app", in_release, pwd="srv/current/short")
    assert named == ["ROOT/srv/current/short", by_link]
    # Two links in a row, and one above both, so that the release has two names.
    folders.link("www", "srv")
    folders.link("live", "ROOT/www/current")
    named = folders.named("srv/releases/7", "ROOT/www/releases/7/bin/python", in_release, pwd="live")
    assert named == ["ROOT/live", "ROOT/live/bin/python", "ROOT/live/.venv/bin/python"]
    named = folders.named("srv/releases/7", "ROOT/www/releases/7/bin/python", "ROOT/srv/current/bin/duly")
    assert named == ["ROOT/srv/current", "ROOT/srv/current/bin/python", "ROOT/srv/current/bin/duly"]


@pytest.mark.parametrize(
    ("linked", "first", "folder", "word"),
    [
        (False, "releases/1/.venv", "current/src", "../.venv/bin/duly"),
        (False, "current/.venv", "current", ".venv/bin/duly"),
        (True, "releases/1/.venv", "current", "ROOT/current/.venv/bin/duly"),
        (True, "venvs/1", "current", ".venv/bin/duly"),
        (True, "venvs/1", "current", "ROOT/duly"),
    ],
)
def test_the_interpreter_is_named_as_its_program_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, linked: bool, first: str, folder: str, word: str
) -> None:
    made = tmp_path / ("venvs/1" if linked else "releases/1/.venv")
    (tmp_path / "releases/1/src").mkdir(parents=True)
    (made / "bin").mkdir(parents=True)
    (made / "bin/duly").touch()
    if linked:
        (tmp_path / "releases/1/.venv").symlink_to(made)
    (tmp_path / "current").symlink_to(tmp_path / "releases/1")
    (tmp_path / "duly").symlink_to(tmp_path / "current/.venv/bin/duly")
    monkeypatch.chdir(tmp_path / folder)
    monkeypatch.setenv("PWD", str(tmp_path / folder))
    monkeypatch.setattr(sys, "executable", str(tmp_path / first / "bin/python"))
    monkeypatch.setattr(sys, "argv", [word.replace("ROOT", str(tmp_path)), "worker"])
    links = _links.to_here([sys.executable, *sys.argv])
    assert links is not None
    assert links.renamed(sys.executable) == str(tmp_path / "current/.venv/bin/python")


def test_without_a_link_the_interpreter_keeps_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for folder in ("usr/bin", "app"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    monkeypatch.chdir(tmp_path / "app")
    monkeypatch.delenv("PWD", raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "usr/bin/python3"))
    for program in ("bin/duly", "usr/bin/duly"):
        monkeypatch.setattr(sys, "argv", [str(tmp_path / program)])
        assert _links.to_here(sys.argv) is None


def test_an_environment_that_no_link_names_keeps_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By links to the program alone, or from a folder that is a link."""
    for folder in ("releases/1", "venv/bin", "home/dots/bin", "repo/src", "repo/venv/bin", "app"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "venv/bin/duly").touch()
    (tmp_path / "current").symlink_to("releases/1")
    (tmp_path / "releases/1/worker").symlink_to("../../venv/bin/duly")
    (tmp_path / "home/bin").symlink_to("dots/bin")
    (tmp_path / "home/dots/bin/duly").symlink_to("../../../venv/bin/duly")
    (tmp_path / "app/src").symlink_to("../repo/src")
    for folder, program, environment in [
        ("current", "ROOT/current/worker", "venv"),
        ("current", "./worker", "venv"),
        ("home", "ROOT/home/bin/duly", "venv"),
        ("app/src", "../venv/bin/duly", "repo/venv"),
    ]:
        executable = str(tmp_path / environment / "bin/python")
        monkeypatch.setattr(sys, "executable", executable)
        monkeypatch.chdir(tmp_path / folder)
        for shells in (str(tmp_path / folder), ""):
            monkeypatch.setenv("PWD", shells)
            monkeypatch.setattr(sys, "argv", [program.replace("ROOT", str(tmp_path))])
            links = _links.to_here([executable, *sys.argv])
            assert links is None or links.renamed(executable) == executable, (folder, program)


def test_a_relative_program_names_its_environment_without_a_shell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "releases/1/.venv/bin").mkdir(parents=True)
    (tmp_path / "current").symlink_to("releases/1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "releases/1/.venv/bin/python"))
    monkeypatch.setattr(sys, "argv", ["current/.venv/bin/duly", "worker"])
    for shells in ("", "/"):
        monkeypatch.setenv("PWD", shells)
        links = _links.to_here([sys.executable, *sys.argv])
        assert links is not None
        assert links.renamed(sys.executable) == str(tmp_path / "current/.venv/bin/python")


def test_what_lies_beside_the_folder_of_a_link_keeps_its_name(folders: Folders) -> None:
    folders.link("srv/shop", "ROOT/home/shop")
    assert folders.named("home/shop", "ROOT/home/venv/bin/python", pwd="srv/shop") == [
        "ROOT/srv/shop",
        "ROOT/home/venv/bin/python",
    ]
    folders.link("root", "/")
    words = ["ROOT/home/venv/bin/python", "/usr//bin/env"]
    pwd = f"root{folders.root}/home/shop"
    assert folders.named("home/shop", *words, pwd=pwd) == ["ROOT/home/shop", *words]
    # A name that a shell would take apart.
    folders.link("my shop", "home/shop")
    text = "exec ROOT/home/shop/run"
    assert folders.named("home/shop", text, "ROOT/home/shop/run", pwd="my shop")[1:] == [text, "ROOT/my shop/run"]
