"""What `duly worker` makes of an app's module, whatever that does while it is imported."""

from __future__ import annotations

import compileall
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


TASKS_APP = 'app = duly.App(os.environ["URL"], prefix=os.environ["PREFIX"])'


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
        ("import duly.cli, sys; sys.exit(duly.cli.main(['worker', 'shop.tasks:app']))", "run one more"),
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


@pytest.mark.parametrize("name", ["", '"note"'])
def test_a_program_whose_package_imports_it_has_each_task_once(
    name: str, start: Start, environment: dict[str, str], notes: Callable[[], list[str]], tmp_path: Path
) -> None:
    (tmp_path / "shop" / "app.py").write_text(
        "import os, duly\napp = duly.App(os.environ['URL'], prefix=os.environ['PREFIX'])\nfrom shop import tasks\n"
    )
    text = textwrap.dedent(TASKS).replace(TASKS_APP, "from shop.app import app")
    text = text.replace("task(queue", f"task({name}, queue" if name else "task(queue")
    (tmp_path / "shop" / "tasks.py").write_text(text + 'if __name__ == "__main__": note.push("x")\n')
    command = [sys.executable, "-m", "shop.tasks"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=60)
    start("worker", "shop.app:app")
    until(notes, "the job was pushed under another name")


def test_a_program_whose_package_imports_it_has_all_that_it_says_once_and_its_own(
    environment: dict[str, str], notes: Callable[[], list[str]], tmp_path: Path
) -> None:
    (tmp_path / "shop" / "app.py").write_text(
        "import os, duly\napp = duly.App(os.environ['URL'], prefix=os.environ['PREFIX'])\nfrom shop import tasks\n"
    )
    (tmp_path / "shop" / "elsewhere.py").write_text(
        "def write_elsewhere(note, text): note(f'{text} elsewhere')\n"
        "def begin_elsewhere(note): note('begin elsewhere')\n"
    )
    text = textwrap.dedent(TASKS).replace(TASKS_APP, "from shop.app import app") + textwrap.dedent("""
        import functools
        import duly
        from shop.elsewhere import begin_elsewhere, write_elsewhere
        to = "nowhere"

        class Noting:
            def __call__(self, text: str) -> None:
                note(f"{text} {to}")

        def write(text: str, before: str) -> None:
            note(f"{before} {text} {to}")

        app.task("object", queue="orders")(Noting())
        app.task("partial", queue="orders")(functools.partial(write, before="a"))
        app.task("of another module", queue="orders")(functools.partial(write_elsewhere, note))
        app.on_start(functools.partial(begin_elsewhere, note))

        @app.task("function", queue="orders")
        def function(text: str) -> None:
            note(f"{text} {to}")

        @app.on_start
        def begin() -> None:
            note(f"begin {to}")

        @app.on_stop
        def end() -> None:
            note(f"end {to}")

        @app.otherwise
        def others(job: duly.Job) -> None:
            note(f"{job.name} {to}")

        if __name__ == "__main__":
            to = "there"
            for name in ("object", "partial", "function", "other", "of another module"):
                app.queue("orders").push({"text": name}, name=name)
            app.worker(["orders"], max_jobs=5, concurrency=1).run()
    """)
    (tmp_path / "shop" / "tasks.py").write_text(text)
    command = [sys.executable, "-m", "shop.tasks"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=60)
    ran = ["object there", "a partial there", "function there", "other there", "of another module elsewhere"]
    assert notes() == ["begin elsewhere", "begin there", *ran, "end there"]


@pytest.mark.parametrize("form", ["files", "zip", "compiled"])
def test_functions_of_one_name_and_those_given_twice_are_kept(
    form: str, environment: dict[str, str], notes: Callable[[], list[str]], tmp_path: Path
) -> None:
    (tmp_path / "shop" / "app.py").write_text(
        textwrap.dedent("""
            import os, duly
            app = duly.App(os.environ["URL"], prefix=os.environ["PREFIX"])
            def write(text):
                with open(os.environ["NOTES"], "a") as notes:
                    notes.write(text + "\\n")
            def begin():
                write("begin the cache")
            from shop import tasks
            worker = app.worker(["orders"], max_jobs=2)
        """)
    )
    (tmp_path / "shop" / "tasks.py").write_text(
        textwrap.dedent("""
            from shop import app as shop
            to = "nowhere"

            def begin():
                shop.write(f"begin {to}")

            def forget():
                shop.write(f"forget {to}")

            for start in (shop.begin, begin):
                shop.app.on_start(start)
            shop.app.on_start(forget)
            shop.app.on_stop(forget)

            @shop.app.task("note", queue="orders")
            def note():
                shop.write(f"note {to}")

            @shop.app.otherwise
            def other(job):
                shop.write(f"other {to}")

            if __name__ == "__main__":
                to = "there"
                for name in ("note", "other"):
                    shop.app.queue("orders").push({}, name=name)
                shop.worker.run()
        """)
    )
    if form == "zip":
        shutil.make_archive(str(tmp_path / "shop"), "zip", tmp_path, "shop")
        shutil.rmtree(tmp_path / "shop")
        environment["PYTHONPATH"] = "shop.zip"
    elif form == "compiled":
        compileall.compile_dir(tmp_path / "shop", quiet=1, legacy=True)
        for source in (tmp_path / "shop").glob("*.py"):
            source.unlink()
    command = [sys.executable, "-m", "shop.tasks"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=60)
    ran = ["note there", "other there"]
    assert notes() == ["begin the cache", "begin there", "forget there", *ran, "forget there"]


def test_a_worker_of_a_package_has_the_handlers_of_its_program_once(
    environment: dict[str, str], notes: Callable[[], list[str]], tmp_path: Path
) -> None:
    (tmp_path / "shop" / "app.py").write_text(
        "import os, duly\nclient = duly.Client(os.environ['URL'], prefix=os.environ['PREFIX'])\n"
        "worker = duly.Worker(client, ['orders'], max_jobs=1)\nfrom shop import tasks\n"
    )
    (tmp_path / "shop" / "tasks.py").write_text(
        textwrap.dedent("""
            import os
            from shop.app import client, worker
            to = "nowhere"

            @worker.on("note")
            def note(job) -> None:
                with open(os.environ["NOTES"], "a") as notes:
                    notes.write(f"{job.data} {to}\\n")

            if __name__ == "__main__":
                to = "there"
                client.queue("orders").push("x", name="note")
                worker.run()
        """)
    )
    command = [sys.executable, "-m", "shop.tasks"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=60)
    assert notes() == ["x there"]


def test_two_tasks_of_one_name_are_refused() -> None:
    app = duly.App()

    @app.task("note")
    def first() -> None: ...

    def second() -> None: ...

    with pytest.raises(duly.InvalidArgumentError, match="there is a task 'note' already"):
        app.task("note")(second)


@pytest.mark.parametrize("more", ["os.closerange(3, 256)", "os.chdir('/'); os.umask(0)"])
def test_an_app_may_do_anything_to_the_process_that_imports_it(
    more: str, start: Start, orders: duly.Queue, notes: Callable[[], list[str]], tmp_path: Path
) -> None:
    write(tmp_path, before=f"import os; {more}")
    start("worker", "shop.tasks:app", "--max-jobs", "5")
    orders.push({"text": "x"}, name="shop.tasks.note")
    until(notes, "the job did not run")


def test_a_folder_that_is_gone_is_said_whatever_is_given(environment: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "duly", "worker", "shop.tasks:app", "--log-config", "log.json"]
    gone = (
        f"import os, sys; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone'); os.execv(sys.executable, {command})"
    )
    done = subprocess.run(
        [sys.executable, "-c", gone],
        cwd=tmp_path,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, "the current folder is gone" in done.stderr) == (2, True), done.stderr


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


def test_a_program_that_another_one_runs_keeps_the_names_of_its_tasks(
    environment: dict[str, str], tmp_path: Path
) -> None:
    write(tmp_path, more="print(note.name)")
    shop = str(tmp_path / "shop")
    names = {
        "-m": [sys.executable, "-m", "shop.tasks"],
        "profile": [sys.executable, "-m", "cProfile", "shop/tasks.py"],
        "profile -m": [sys.executable, "-m", "cProfile", "-m", "shop.tasks"],
        "file": [sys.executable, "shop/tasks.py"],
        "-c": [sys.executable, "-c", "exec(open('shop/tasks.py').read())"],
        "folder": [sys.executable, shop],
    }
    (tmp_path / "shop" / "__main__.py").write_text((tmp_path / "shop" / "tasks.py").read_text())
    said = {}
    for how, command in names.items():
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True, timeout=60
        )
        said[how] = done.stdout.split()[0]
    by_module, alone = "shop.tasks.note", "__main__.note"
    assert said == {
        "-m": by_module,
        "profile": alone,
        "profile -m": by_module,
        "file": alone,
        "-c": alone,
        "folder": alone,
    }


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
