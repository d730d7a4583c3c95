"""What `duly worker` makes of an app's module, whatever that does while it is imported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import duly
import pytest
from support import Server, Start, commands, until

TASKS = """
    import os
    import duly

    app = duly.App(os.environ["URL"], prefix=os.environ["PREFIX"])

    @app.task(queue="orders")
    def note(text: str) -> None:
        with open(os.environ["NOTES"], "a") as notes:
            notes.write(f"{text}\\n")
"""


@pytest.fixture
def environment(server: Server, prefix: str, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "shop").mkdir()
    (tmp_path / "notes").touch()
    return {**os.environ, "URL": server.url, "PREFIX": prefix, "NOTES": str(tmp_path / "notes")}


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    with commands(cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL) as run:
        yield run


@pytest.fixture
def notes(tmp_path: Path) -> Callable[[], list[str]]:
    return lambda: (tmp_path / "notes").read_text().splitlines()


@pytest.fixture
def orders(client: duly.Client) -> duly.Queue:
    return client.queue("orders")


def write(tmp_path: Path, more: str = "", before: str = "") -> None:
    text = textwrap.dedent(before) + textwrap.dedent(TASKS) + textwrap.dedent(more)
    (tmp_path / "shop" / "tasks.py").write_text(text)


@pytest.mark.parametrize(
    "arguments", [[], ["-p", "2"], ["--max-jobs", "100"], ["-p", "2", "--log-config", "log.json"]], ids=str
)
def test_an_app_that_goes_to_its_own_folder_runs_in_any_number_of_processes(
    arguments: list[str], start: Start, orders: duly.Queue, notes: Callable[[], list[str]], tmp_path: Path
) -> None:
    write(tmp_path, before="import os, pathlib; os.chdir(pathlib.Path(__file__).parent)")
    (tmp_path / "log.json").write_text("{}")
    worker = start("worker", "shop.tasks:app", *arguments)
    orders.push({"text": "x"}, name="shop.tasks.note")
    until(notes, "the job did not run")
    worker.send_signal(signal.SIGTERM)
    _, said = worker.communicate(timeout=60)
    assert (worker.returncode, "no module" in said) == (0, False)


@pytest.mark.parametrize("arguments", [[], ["-p", "2"]], ids=str)
@pytest.mark.parametrize(
    ("runs", "named"),
    [
        ("app.worker().run()", "run a worker"),
        ("import asyncio; asyncio.run(app.worker().serve())", "run a worker"),
        ("duly.Supervisor(['true'], 1).run()", "run a supervisor"),
    ],
)
def test_a_module_that_runs_a_worker_when_it_is_imported_is_refused(
    runs: str, named: str, arguments: list[str], start: Start, tmp_path: Path
) -> None:
    write(tmp_path, more=runs)
    worker = start("worker", "shop.tasks:app", *arguments)
    _, said = worker.communicate(timeout=60)
    assert worker.returncode == 2
    assert f"`duly worker` imports this module, and runs shop.tasks:app itself: {named} only in a program" in said
    assert "tasks.py" in said


@pytest.mark.parametrize("guarded", [True, False])
def test_a_program_runs_its_own_worker(guarded: bool, environment: dict[str, str], tmp_path: Path) -> None:
    text = 'note.push("x"); app.worker(max_jobs=1).run()'
    write(tmp_path, more=f'if __name__ == "__main__": {text}' if guarded else text)
    command = [sys.executable, "-m", "shop.tasks"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=60)
    assert (tmp_path / "notes").read_text() == "x\n"


def test_a_program_names_its_tasks_as_workers_do(
    start: Start, environment: dict[str, str], notes: Callable[[], list[str]], tmp_path: Path
) -> None:
    pushes = """
        def again() -> None:
            note.push("by another process")

        if __name__ == "__main__":
            import multiprocessing
            note.push("by the program")
            process = multiprocessing.get_context("spawn").Process(target=again)
            process.start()
            process.join()
    """
    write(tmp_path, more=pushes)
    start("worker", "shop.tasks:app")
    command = [sys.executable, "-m", "shop.tasks"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=60)
    until(lambda: len(notes()) == 2, "a job was pushed under another name")
    assert sorted(notes()) == ["by another process", "by the program"]


def test_a_job_whose_name_only_a_script_knows_says_what_to_do(
    start: Start, orders: duly.Queue, environment: dict[str, str], tmp_path: Path
) -> None:
    write(tmp_path, more='if __name__ == "__main__": note.push("x")')
    worker = start("worker", "shop.tasks:app")
    script = [sys.executable, "shop/tasks.py"]
    subprocess.run(script, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=60)
    assert worker.stderr is not None
    said = ""
    while "'__main__.note'" not in said:
        said = worker.stderr.readline()
        assert said, "it has ended"
    assert "its own task, which has no name of its own; give it one, such as @app.task('close_order')" in said
    assert orders.counts().failed == 0
