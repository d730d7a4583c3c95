"""Releases behind a link: after a reload `duly worker` runs the one to which the link leads."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
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
def release(tmp_path: Path) -> Callable[[int], None]:
    """Deploy this release."""

    def deploy(number: int) -> None:
        folder = tmp_path / f"releases/{number}"
        (folder / "bin").mkdir(parents=True)
        (folder / "bin/python").symlink_to(sys.executable)
        (folder / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
        # As pip writes it: with the interpreter of the release.
        (folder / "bin/duly").write_text(f"#!{folder}/bin/python\nfrom duly.cli import main\nmain()\n")
        (folder / "bin/duly").chmod(0o755)
        (folder / "packages").mkdir()
        (folder / "packages/lib.py").write_text(f"version = {number}\n")
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


@pytest.mark.parametrize("way", ["a shell", "a service"])
def test_a_reload_runs_the_release_to_which_the_link_leads(
    start: Start,
    release: Callable[[int], None],
    client: duly.Client,
    server: Server,
    prefix: str,
    tmp_path: Path,
    way: str,
) -> None:
    current, notes = tmp_path / "current", tmp_path / "notes"
    notes.touch()
    orders = client.queue("orders")
    package = str(Path(duly.__file__).parent.parent)
    environment = {**os.environ, "URL": server.url, "PREFIX": prefix, "NOTES": str(notes), "PYTHONPATH": package}
    environment.pop("PWD", None)
    command = [f"{current}/bin/duly"]
    if way == "a shell":
        environment["PWD"] = str(current)
        command = ["bin/python", "-m", "duly"]
    release(1)
    worker = start(*command, "worker", "shop:app", "-p", "2", cwd=current, env=environment)

    def runs(number: int) -> bool:
        orders.push({}, name="version")
        return notes.read_text().endswith(f"{number} {number}\n")

    until(lambda: runs(1), "the first release does not run")
    release(2)
    shutil.rmtree(tmp_path / "releases/1")
    worker.send_signal(signal.SIGHUP)
    until(lambda: runs(2), "the second release does not run")
    worker.send_signal(signal.SIGTERM)
    _, said = worker.communicate(timeout=60)
    assert worker.returncode == 0, said


def test_the_link_that_leads_nearest_names_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "data/shop/releases/1"
    (folder / "bin").mkdir(parents=True)
    (tmp_path / "srv").symlink_to("data")
    shop = tmp_path / "srv/shop"
    (shop / "current").symlink_to("releases/1")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PWD", str(folder))
    found = _links.of_current_folder

    def named(*paths: str) -> tuple[str, str] | None:
        link = found(paths)
        return None if link is None else (link.name, link.target)

    data = tmp_path / "data"
    current = (str(shop / "current"), str(folder))
    assert named("worker.py", "/usr/bin/env", str(shop / "releases/1/bin")) == (str(tmp_path / "srv"), str(data))
    assert named(str(tmp_path), str(shop / "current/bin/python")) == current
    link = found([str(shop / "current")])
    assert link is not None
    assert link.renamed(f"{shop}/releases/1/bin/python") == f"{shop}/current/bin/python", "a link above both"
    (tmp_path / "duly").symlink_to("srv/shop/current/bin/duly")
    assert named(str(tmp_path / "duly")) == current, "a link to the program"
    assert named(str(tmp_path), "/" + 5000 * "x") is None
    monkeypatch.setenv("PWD", str(shop / "current"))
    assert named() == current
    monkeypatch.chdir(folder / "bin")
    monkeypatch.setenv("PWD", str(shop / "current/bin"))
    assert named() == current
    monkeypatch.setenv("PWD", "/usr")
    assert named() is None
    # Links that have the name of the folder to which they lead, as that of a disk, and the root.
    (tmp_path / "bin").symlink_to(folder / "bin")
    monkeypatch.setenv("PWD", str(tmp_path / "bin"))
    assert named() == (str(tmp_path / "bin"), str(folder / "bin"))
    (tmp_path / "root").symlink_to("/")
    monkeypatch.setenv("PWD", f"{tmp_path}/root{folder}")
    assert named() is None


def test_what_is_named_by_the_release_is_named_by_the_link() -> None:
    link = _links.Link("/srv/current", "/srv/releases/7")
    words = ["/srv/releases/7/.venv/bin/python", "-c", "sys.path.append('/srv/releases/7/lib')", "/srv/releases/70/x"]
    renamed = ["/srv/current/.venv/bin/python", "-c", "sys.path.append('/srv/current/lib')", "/srv/releases/70/x"]
    assert [link.renamed(word) for word in words] == renamed
    assert link.renamed("/srv/releases/7") == "/srv/current"
    others = ["/opt/srv/releases/7/x", "../srv/releases/7/x", "redis://host/srv/releases/7/x", "/srv/releases/7.old/x"]
    assert [link.renamed(word) for word in others] == others
