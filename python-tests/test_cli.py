"""The command `duly`: real processes, real signals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import duly
import pytest
from support import Server, Start, commands, until

APP = """
    import os, time
    import duly

    app = duly.App(os.environ["URL"], prefix=os.environ["PREFIX"])

    @app.task("note", queue="orders")
    def note(text: str) -> None:
        with open(os.environ["NOTES"], "a") as notes:
            notes.write(f"{os.getpid()} {text}\\n")

    @app.task("die", queue="orders", max_retries=0)
    def die(status: int = 9) -> None:
        os._exit(status)

    @app.task("break", queue="orders", max_retries=0)
    def break_() -> None:
        raise ValueError("no such order")

    @app.task("sleep", queue="orders")
    def sleep(seconds: float) -> None:
        note("began")
        time.sleep(seconds)
        note("ended")

    @app.task("wait", queue="orders")
    def wait() -> None:
        note("began")
        while not os.path.exists("gate"):
            time.sleep(0.01)
        note("ended")
"""


@pytest.fixture
def environment(server: Server, prefix: str, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "shop.py").write_text(textwrap.dedent(APP))
    (tmp_path / "notes").touch()
    return {**os.environ, "URL": server.url, "PREFIX": prefix, "NOTES": str(tmp_path / "notes")}


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    with commands(cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL) as run:
        yield run


@pytest.fixture
def notes(tmp_path: Path) -> Callable[[], list[tuple[str, str]]]:
    def read() -> list[tuple[str, str]]:
        lines = (tmp_path / "notes").read_text().splitlines()
        return [(pid, text) for pid, _, text in (line.partition(" ") for line in lines)]

    return read


@pytest.fixture
def orders(client: duly.Client) -> duly.Queue:
    return client.queue("orders")


Notes = Callable[[], list[tuple[str, str]]]


def test_a_worker_runs_tasks_until_sigterm(start: Start, orders: duly.Queue, notes: Notes) -> None:
    orders.push({"text": "one"}, name="note")
    worker = start("worker", "shop:app", "-q", "orders=3,mail=1", "-c", "2")
    until(notes, "the job did not run")
    worker.send_signal(signal.SIGTERM)
    _, said = worker.communicate(timeout=20)
    assert worker.returncode == 0, said
    assert "serving orders, mail with 5 tasks" in said


def test_processes_of_a_supervisor_have_its_options_and_pythons_own_modules(
    environment: dict[str, str], tmp_path: Path, orders: duly.Queue, notes: Notes
) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('not this one')\n")
    app = "app.task('flags', queue='orders')(lambda: note(f'{sys.flags.optimize} {sys.warnoptions} {sys._xoptions}'))"
    (tmp_path / "shop.py").write_text(f"import sys\n{textwrap.dedent(APP)}\n{app}\n")
    orders.push({}, name="flags")
    begin = "import sys; sys.path.pop(0); from duly.cli import main; sys.exit(main())"
    command = [sys.executable, "-O", "-W", "error::UserWarning", "-X", "dev", "-c", begin]
    command += ["worker", "shop:app", "--processes", "2", "--prefetch", "0"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as supervisor:
        try:
            until(notes, "the job did not run")
        finally:
            supervisor.terminate()
            _, said = supervisor.communicate(timeout=60)
    assert supervisor.returncode == 0, said
    ((_, flags),) = notes()
    assert flags.startswith("1 ["), flags
    assert "error::UserWarning" in flags, flags
    assert "'dev': True" in flags, flags


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["worker", "nowhere:app"], "no module 'nowhere'"),
        (["worker", "shop:nothing"], "shop has no 'nothing'"),
        (["worker", "shop:note"], "is a Task, not a duly.App"),
        (["worker", "shop:app", "-q", "orders=3,mail"], "weights for all of them"),
        (["worker", "shop:app", "-q", "or ders"], "queue"),
        (["worker", "shop:app", "-q", "orders=0"], "weight must be a whole number from 1 to 1000"),
        (["worker", "shop:app", "-q", "orders,orders"], "given twice"),
        (["worker", "shop:app", "--lease", "0"], "lease"),
        (["worker", ":"], "names no module"),
        (["worker", ".shop"], "names no module"),
        (["worker", "./shop:app"], "names no module"),
        (["worker", "shop.py:app"], "no module 'shop.py'"),
        (["worker", "shop:app", "-c", "0"], "must be a whole number, 1 or more, not '0'"),
        (["worker", "shop:app", "-c", "abc"], "must be a whole number, 1 or more, not 'abc'"),
        (["worker", "shop:app", "--grace", "soon"], "must be a number of seconds, 0 or more, not 'soon'"),
        (["worker", "shop:app", "--lease", "nan"], "must be a number of seconds, 0 or more, not 'nan'"),
        (["worker", "shop:app", "--prefetch", "1001"], "prefetch must be a whole number from 0 to 1000"),
        (["worker", "shop:app", "--max-memory", "0"], "must be a whole number, 1 or more, not '0'"),
        (["worker", "shop:app", "--prefetch", "x"], "must be a whole number"),
        (["worker"], "the following arguments are required: app"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(start: Start, arguments: list[str], says: str) -> None:
    worker = start(*arguments)
    _, said = worker.communicate(timeout=20)
    assert worker.returncode == 2
    assert says in said
    assert "Traceback" not in said


def test_a_command_whose_input_is_closed_reads_nothing(environment: dict[str, str], server: Server) -> None:
    here = {**environment, "DULY_URL": server.url}
    pushes = [
        subprocess.run(
            ["sh", "-c", f"exec {sys.executable} -m duly push q {stdin}"],
            env=here,
            capture_output=True,
            text=True,
            timeout=60,
        )
        for stdin in ("</dev/null", "<&-")
    ]
    assert pushes[0].stderr == pushes[1].stderr
    assert pushes[0].returncode == pushes[1].returncode == 2


BROKEN = [
    ("def broken(:", r"the app broken:app cannot be imported: SyntaxError: .+\n  at .*/broken\.py:1"),
    (
        "import duly\nimport no_such_module",
        r"ModuleNotFoundError: No module named 'no_such_module'\n  at .*/broken\.py:2 in <module>",
    ),
    (
        "def load():\n    raise ValueError('no settings')\nload()",
        r"ValueError: no settings\n  at .*/broken\.py:2 in load\n  at .*/broken\.py:3 in <module>\n$",
    ),
    ("raise SystemExit(0)", r"SystemExit: 0\n  at .*/broken\.py:1 in <module>"),
    (
        "import duly\napp = duly.App('redis://127.0.0.1/none')\n",
        r"InvalidArgumentError: the server's URL cannot be used: .+\n  at .*/broken\.py:2 in <module>",
    ),
    ("import duly\napp = duly.App()\n", r"the app broken:app has no task: import the modules with its tasks there"),
    ("def __getattr__(name):\n    raise KeyError(name)", r"KeyError: 'app'\n  at .*/broken\.py:2 in __getattr__"),
]


@pytest.mark.parametrize("arguments", [(), ("-p", "2")])
@pytest.mark.parametrize(("source", "says"), BROKEN)
def test_an_app_that_cannot_be_imported_says_what_failed_and_where(
    start: Start, tmp_path: Path, source: str, says: str, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "broken.py").write_text(source)
    worker = start("worker", "broken:app", *arguments)
    _, said = worker.communicate(timeout=20)
    assert worker.returncode == 2, said
    assert said.startswith("duly: ")
    assert re.search(says, said), said
    assert "Traceback" not in said


def test_processes_go_on_while_the_app_cannot_be_imported_for_another(
    start: Start, orders: duly.Queue, notes: Notes, tmp_path: Path
) -> None:
    supervisor = start("worker", "shop:app", "-p", "2", "--lease", "0.3")
    orders.push_many(duly.NewJob({"text": "x"}, name="note") for _ in range(20))
    until(lambda: len({pid for pid, _ in notes()}) == 2 or not orders.counts().ready, "the jobs did not run")
    source = (tmp_path / "shop.py").read_text()
    (tmp_path / "shop.py").write_text("def broken(:")
    os.kill(int(notes()[0][0]), signal.SIGKILL)
    assert supervisor.stderr is not None
    said = ""
    while "ended with exit code 2 after" not in said:
        said = supervisor.stderr.readline()
        assert said, "it has ended"
    (tmp_path / "shop.py").write_text(source)
    before = len({pid for pid, _ in notes()})

    def another_works() -> bool:
        orders.push({"text": "again"}, name="note")
        return len({pid for pid, _ in notes()}) > before

    until(another_works, "the dead was not replaced")
    supervisor.send_signal(signal.SIGTERM)
    supervisor.communicate(timeout=20)
    assert supervisor.returncode == 0


def test_an_app_that_ends_its_process_is_started_again_after_pauses_that_grow(
    start: Start, notes: Notes, tmp_path: Path
) -> None:
    leaves = """
        import os, sys
        if "--supervised" in sys.orig_argv:
            with open(os.environ["NOTES"], "a") as notes:
                notes.write(f"{os.getpid()} start\\n")
            os._exit(0)
    """
    (tmp_path / "shop.py").write_text(textwrap.dedent(leaves) + textwrap.dedent(APP))
    supervisor = start("worker", "shop:app", "-p", "1", "--max-jobs", "1")
    assert supervisor.stderr is not None
    pauses: list[float] = []
    while len(pauses) < 5:
        said = supervisor.stderr.readline()
        assert said, "it has ended"
        if found := re.search(r"ended before it was ready after [\d.]+ s; another one starts in ([\d.]+) s", said):
            pauses.append(float(found[1]))
    supervisor.send_signal(signal.SIGTERM)
    _, said = supervisor.communicate(timeout=20)
    assert supervisor.returncode == 0, said
    for n, pause in enumerate(pauses):
        # Half of it is drawn.
        assert pause == pytest.approx(0.075 * 2**n, abs=0.025 * 2**n + 0.05)
    # One may have been started just before the signal.
    assert len(notes()) - len(pauses) - said.count("ended before it was ready") in (0, 1)


SLOW = """
    import os, sys, time
    me = "child" if "--supervised" in sys.orig_argv else "parent"
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(f"{os.getpid()} {me}\\n")
    who, seconds = os.environ["SLOW"].split()
    if seconds == "busy" and who == me:
        sum(range(10**15))  # looks for no signal
    time.sleep(float(seconds) if who == me else 0)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT])
@pytest.mark.parametrize(
    ("when", "processes"),
    [
        ("while Python starts", 3),
        ("while the app is imported", 3),
        ("while the app is imported", 1),
        ("while the import is in C code", 1),
    ],
)
def test_a_stop_before_a_worker_is_ready_is_quiet(
    start: Start,
    environment: dict[str, str],
    notes: Notes,
    tmp_path: Path,
    when: str,
    processes: int,
    number: signal.Signals,
) -> None:
    who, number_of_them = ("parent", 1) if processes == 1 else ("child", processes)
    # A signal is handled when Python has started, and at once in an import.
    slow = {"while Python starts": "2", "while the app is imported": "60", "while the import is in C code": "busy"}
    environment["SLOW"] = f"{who} {slow[when]}"
    if when == "while Python starts":
        # Python imports it by itself, before the command.
        (tmp_path / "sitecustomize.py").write_text(textwrap.dedent(SLOW))
        environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *filter(None, [environment.get("PYTHONPATH")])])
    else:
        (tmp_path / "shop.py").write_text(textwrap.dedent(SLOW) + textwrap.dedent(APP))
    worker = start("worker", "shop:app", "-p", str(processes))
    until(lambda: [name for _, name in notes()].count(who) == number_of_them, "it did not start")
    worker.send_signal(number)
    _, said = worker.communicate(timeout=20)
    assert (worker.returncode, said) == (0, "")


def test_several_processes_share_the_work_and_the_dead_are_replaced(
    start: Start, orders: duly.Queue, notes: Notes
) -> None:
    supervisor = start("worker", "shop:app", "-p", "2", "--lease", "0.5")
    orders.push_many(duly.NewJob({"text": "x"}, name="note") for _ in range(50))
    until(lambda: len(notes()) == 50, "the jobs did not run")
    victim = int(notes()[0][0])
    os.kill(victim, signal.SIGKILL)

    def another_works() -> bool:
        orders.push({"text": "again"}, name="note")
        return len({pid for pid, _ in notes()} - {str(victim)}) >= 2

    until(another_works, "the dead was not replaced")
    supervisor.send_signal(signal.SIGTERM)
    _, said = supervisor.communicate(timeout=20)
    assert supervisor.returncode == 0, said
    assert re.search(rf"worker process {victim} was killed by signal 9", said)


def test_a_hangup_stops_a_single_process(start: Start, orders: duly.Queue, notes: Notes, tmp_path: Path) -> None:
    orders.push({}, name="wait")
    worker = start("worker", "shop:app")
    until(notes, "the job did not begin")
    worker.send_signal(signal.SIGHUP)
    (tmp_path / "gate").touch()
    _, said = worker.communicate(timeout=20)
    assert worker.returncode == 0, said
    assert orders.counts().reserved == 0


def test_a_job_that_kills_its_process_ends_in_failed(start: Start, orders: duly.Queue) -> None:
    poison = orders.push({}, name="die", max_retries=0)
    start("worker", "shop:app", "-p", "2", "--lease", "0.3")

    def has_failed() -> bool:
        found = orders.find(poison)
        return found is not None and found.state == "failed"

    until(has_failed, "the job did not end in failed")


def test_a_running_job_ends_within_the_grace_and_a_second_signal_ends_the_grace(
    start: Start, orders: duly.Queue, notes: Notes
) -> None:
    orders.push({"seconds": 0.5}, name="sleep")
    patient = start("worker", "shop:app", "-p", "2", "--grace", "20")
    until(notes, "the job did not begin")
    patient.send_signal(signal.SIGINT)
    patient.communicate(timeout=20)
    assert [text for _, text in notes()] == ["began", "ended"]
    orders.push({"seconds": 60}, name="sleep")
    impatient = start("worker", "shop:app", "-p", "2", "--grace", "60")
    until(lambda: len(notes()) == 3, "the second job did not begin")
    # Twice the same signal may become one: two different ones do not.
    impatient.send_signal(signal.SIGTERM)
    impatient.send_signal(signal.SIGINT)
    impatient.communicate(timeout=20)
    # Which of the two was the second is the system's choice.
    assert impatient.returncode in (128 + signal.SIGINT, 128 + signal.SIGTERM)
    assert orders.counts().ready == 1


def test_a_grace_that_ends_before_the_handler_is_told_by_the_status(
    start: Start, orders: duly.Queue, notes: Notes
) -> None:
    orders.push({"seconds": 60}, name="sleep")
    worker = start("worker", "shop:app", "--grace", "0.1")
    until(notes, "the job did not begin")
    worker.send_signal(signal.SIGQUIT)
    worker.communicate(timeout=20)
    assert worker.returncode == 142
    assert orders.counts().ready == 1


def test_a_name_of_several_processes_may_begin_with_a_dash(start: Start, orders: duly.Queue) -> None:
    supervisor = start("worker", "shop:app", "--processes", "2", "--name=-night", "--queues=orders")
    until(lambda: [worker.name for worker in orders.workers()] == ["-night", "-night"], "they do not run")
    supervisor.send_signal(signal.SIGTERM)
    supervisor.communicate(timeout=20)
    assert supervisor.returncode == 0


def test_a_process_is_replaced_after_so_many_jobs(start: Start, orders: duly.Queue, notes: Notes) -> None:
    orders.push_many(duly.NewJob({"text": "x"}, name="note") for _ in range(10))
    supervisor = start("worker", "shop:app", "--max-jobs", "3", "-c", "2")
    until(lambda: len(notes()) == 10, "the jobs did not run")
    supervisor.send_signal(signal.SIGTERM)
    supervisor.communicate(timeout=20)
    assert supervisor.returncode == 0
    runs = Counter(pid for pid, _ in notes())
    assert sorted(runs.values()) == [1, 3, 3, 3]


def test_a_process_that_uses_too_much_memory_is_replaced_when_its_jobs_have_ended(
    tmp_path: Path, start: Start, orders: duly.Queue, notes: Notes
) -> None:
    hoard = """
    kept = []

    @app.task("hoard", queue="orders")
    def hoard() -> None:
        note("began")
        kept.append(b"x" * (500 * 2**20))
        time.sleep(1.5)
        note("ended")
    """
    (tmp_path / "shop.py").write_text(textwrap.dedent(APP) + textwrap.dedent(hoard))
    orders.push({}, name="hoard", max_retries=0)
    supervisor = start("worker", "shop:app", "--max-memory", "400", "--grace", "0.1")
    until(lambda: orders.counts().ready + orders.counts().reserved == 0, "it did not end")
    orders.push({"text": "in another process"}, name="note")
    until(lambda: len(notes()) == 3, "no process takes its place")
    supervisor.send_signal(signal.SIGTERM)
    _, said = supervisor.communicate(timeout=20)
    assert supervisor.returncode == 0
    assert re.search(r"the process uses \d+ MiB, which is more than 400: the worker ends", said), said
    (first, began), (same, ended), (other, _) = notes()
    assert (began, ended, first == same, first == other) == ("began", "ended", True, False)
    assert orders.counts().failed == 0


def test_the_last_job_of_a_process_takes_longer_than_the_grace(
    start: Start, orders: duly.Queue, notes: Notes, tmp_path: Path
) -> None:
    orders.push({}, name="wait", max_retries=0)
    start("worker", "shop:app", "--max-jobs", "1", "--grace", "0.1", "--lease", "0.3")
    # Reported about a second after its start.
    until(lambda: any(worker.running for worker in orders.workers()), "no job runs for long")
    (tmp_path / "gate").touch()
    until(lambda: orders.counts().reserved == 0, "it did not end")
    assert [text for _, text in notes()] == ["began", "ended"]
    assert (orders.counts().ready, orders.counts().failed) == (0, 0)


def test_a_handler_that_cannot_be_interrupted_ends_its_process(start: Start, orders: duly.Queue) -> None:
    stuck = orders.push({"seconds": 60}, name="sleep", timeout=1, max_retries=0)
    other = orders.push({"seconds": 7}, name="sleep")
    worker = start("worker", "shop:app", "-c", "2")
    _, said = worker.communicate(timeout=30)
    assert worker.returncode == 124
    assert "does not end" in said
    found = orders.find(stuck)
    assert found is not None
    assert found.state == "failed"
    # The others were let finish.
    assert orders.find(other) is None


def test_processes_end_with_a_supervisor_that_was_killed(start: Start, orders: duly.Queue, notes: Notes) -> None:
    supervisor = start("worker", "shop:app", "-p", "2")
    orders.push_many(duly.NewJob({"text": "x"}, name="note") for _ in range(20))
    until(lambda: len(notes()) == 20, "the jobs did not run")
    pids = {int(pid) for pid, _ in notes()}
    supervisor.kill()
    until(lambda: not any(is_alive(pid) for pid in pids), "a process outlived its supervisor")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_reload_starts_again_when_a_file_changes(
    start: Start, orders: duly.Queue, notes: Notes, tmp_path: Path
) -> None:
    start("worker", "shop:app", "--reload")
    orders.push({"text": "before"}, name="note")
    until(notes, "the job did not run")
    (tmp_path / "shop.py").write_text(textwrap.dedent(APP).replace("{text}", "new {text}"))

    def runs_new_code() -> bool:
        orders.push({"text": "after"}, name="note")
        return any(text == "new after" for _, text in notes())

    until(runs_new_code, "the new code does not run")


def test_a_broken_file_is_waited_out_with_reload(
    start: Start, orders: duly.Queue, notes: Notes, tmp_path: Path
) -> None:
    supervisor = start("worker", "shop:app", "--reload")
    orders.push({"text": "x"}, name="note")
    until(notes, "the job did not run")
    source = (tmp_path / "shop.py").read_text()
    (tmp_path / "shop.py").write_text("def broken(:")
    said = ""
    assert supervisor.stderr is not None
    while "another one starts when a source file changes" not in said:
        said = supervisor.stderr.readline()
        assert said, "it has ended"
    (tmp_path / "shop.py").write_text(source)
    orders.push({"text": "x"}, name="note")
    until(lambda: len(notes()) == 2, "the second job did not run")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR2])
def test_processes_are_replaced_one_after_the_other_at_a_reload(
    start: Start, orders: duly.Queue, notes: Notes, tmp_path: Path, number: int
) -> None:
    supervisor = start("worker", "shop:app", "-p", "2")
    orders.push({}, name="wait")
    until(lambda: len(orders.workers()) == 2 and notes(), "not both work")
    before = {worker.pid for worker in orders.workers()}
    (tmp_path / "shop.py").write_text(textwrap.dedent(APP).replace("{text}", "new {text}"))
    # To all of its processes, as by `systemctl kill`.
    for pid in (supervisor.pid, *before):
        os.kill(pid, number)
    (tmp_path / "gate").touch()
    until(lambda: "ended" in [text for _, text in notes()], "the job that ran did not end")
    until(
        lambda: len(orders.workers()) == 2 and not before & {worker.pid for worker in orders.workers()},
        "they were not replaced",
    )
    orders.push({"text": "after"}, name="note")
    until(lambda: notes()[-1][1] == "new after", "the new code does not run")
    supervisor.send_signal(signal.SIGTERM)
    _, said = supervisor.communicate(timeout=20)
    assert supervisor.returncode == 0, said
    assert "reloading: one worker process after the other" in said
    assert "another one starts in" not in said
    assert [text for _, text in notes()] == ["began", "ended", "new after"]


def test_code_that_is_broken_when_it_is_reloaded_stops_no_other_process(
    start: Start, orders: duly.Queue, notes: Notes, tmp_path: Path
) -> None:
    supervisor = start("worker", "shop:app", "-p", "2")
    until(lambda: len(orders.workers()) == 2, "not both work")
    before = {worker.pid for worker in orders.workers()}
    source = (tmp_path / "shop.py").read_text()
    (tmp_path / "shop.py").write_text("def broken(:")
    supervisor.send_signal(signal.SIGHUP)
    assert supervisor.stderr is not None
    said = ""
    while said.count("ended with exit code 2 after") < 2:
        line = supervisor.stderr.readline()
        assert line, f"it has ended: {said}"
        said += line
    orders.push({"text": "x"}, name="note")
    until(notes, "the other one does not work")
    assert int(notes()[0][0]) in before
    (tmp_path / "shop.py").write_text(source)
    until(lambda: not before & {worker.pid for worker in orders.workers()}, "the reload does not go on")
    supervisor.send_signal(signal.SIGTERM)
    supervisor.communicate(timeout=20)
    assert supervisor.returncode == 0


def test_a_job_that_ends_its_process_with_status_1_ends_no_other(
    start: Start, orders: duly.Queue, notes: Notes
) -> None:
    supervisor = start("worker", "shop:app", "-p", "2", "--lease", "0.2")
    orders.push({"status": 1}, name="die", max_retries=0)
    orders.push({"status": 2}, name="die", max_retries=0)
    until(lambda: orders.counts().failed == 2, "the jobs did not end in failed")
    orders.push({"text": "x"}, name="note")
    until(notes, "the next job did not run")
    assert supervisor.poll() is None


def test_the_log_says_why_a_job_failed(start: Start, orders: duly.Queue) -> None:
    worker = start("worker", "shop:app")
    orders.push({}, name="break", id="b", max_retries=0)
    until(lambda: orders.counts().failed == 1, "the job did not fail")
    worker.send_signal(signal.SIGTERM)
    _, said = worker.communicate(timeout=20)
    why = r"job b \(break, attempt 1\) of queue orders failed for good: ValueError at .*shop.py:\d+ in"
    assert re.search(why, said), said


def test_a_wrong_password_ends_it_with_status_1(start: Start, environment: dict[str, str]) -> None:
    environment["URL"] = environment["URL"].replace("unix://", "unix://:wrong@")
    worker = start("worker", "shop:app", "-p", "2")
    _, said = worker.communicate(timeout=30)
    assert worker.returncode == 1, said


def test_a_password_that_is_being_changed_ends_no_supervisor(
    start: Start, environment: dict[str, str], orders: duly.Queue, notes: Notes, server: Server
) -> None:
    user = f"app-{os.getpid()}"
    server.cli("ACL", "SETUSER", user, "on", ">old", "~*", "&*", "+@all")
    environment["URL"] = environment["URL"].replace("unix://", f"unix://{user}:old@")
    worker = start("worker", "shop:app", "--processes", "2", "--max-jobs", "1")
    until(lambda: len(orders.workers()) == 2, "not both work")
    orders.push({"text": "one"}, name="note")
    until(notes, "the job did not run")
    server.cli("ACL", "SETUSER", user, "resetpass", ">new")
    for text in ("two", "three"):  # by those that are connected, whose successors are not let in
        orders.push({"text": text}, name="note")
    assert worker.stderr is not None
    said = ""
    while "ended with exit code 1" not in said:  # by those that are connected nothing is proved
        said = worker.stderr.readline()
        assert said, "nobody was refused"
    server.cli("ACL", "SETUSER", user, "resetpass", ">old")
    orders.push({"text": "four"}, name="note")
    until(lambda: len(notes()) == 4, "the jobs did not run", 60)
    worker.send_signal(signal.SIGTERM)
    _, said = worker.communicate(timeout=30)
    assert worker.returncode == 0, said


def log_of(start: Start, environment: dict[str, str], tmp_path: Path, app: str, *arguments: str) -> str:
    """Give what a worker says of a job that fails, when the app's module begins like this."""
    (tmp_path / "shop.py").write_text(app + textwrap.dedent(APP))
    pushing = [sys.executable, "-c", "import shop; shop.break_.push()"]
    subprocess.run(pushing, cwd=tmp_path, env=environment, check=True)
    worker = start("worker", "shop", *arguments)
    queue = duly.Client(environment["URL"], prefix=environment["PREFIX"]).queue("orders")
    until(lambda: queue.counts().failed == 1, "it did not fail")
    worker.terminate()
    out, said = worker.communicate(timeout=30)
    assert worker.returncode == 0, said
    return out + said


MINE = """import logging, logging.config
{}
"""
DICT_CONFIG = """logging.config.dictConfig({
    "version": 1,
    "formatters": {"mine": {"format": "DICT %(message)s"}},
    "handlers": {"err": {"class": "logging.StreamHandler", "formatter": "mine"}},
    "root": {"handlers": ["err"], "level": "INFO"},
})"""
BASIC_CONFIG = "logging.basicConfig(format='BASIC %(message)s', level='INFO')"


@pytest.mark.parametrize(
    ("app", "arguments", "begin"),
    [
        ("", [], "20"),
        (MINE.format(DICT_CONFIG), [], "DICT "),
        (MINE.format(DICT_CONFIG), ["--no-logging"], "DICT "),
        (MINE.format(BASIC_CONFIG), [], "BASIC "),
        (MINE.format(BASIC_CONFIG), ["--log-level", "warning"], "BASIC "),
        ("import duly.worker\n" + MINE.format(DICT_CONFIG), ["--processes", "2"], "DICT "),
        ("", ["--log-config", "log.json"], "JSON "),
        (MINE.format(BASIC_CONFIG), ["--log-config", "log.ini"], "INI "),
    ],
)
def test_the_log_is_configured_by_the_app_or_a_file(
    app: str, arguments: list[str], begin: str, start: Start, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "log.json").write_text(
        '{"formatters": {"f": {"format": "JSON %(message)s"}}, "handlers": {"h": {"class": "logging.StreamHandler",'
        ' "formatter": "f"}}, "root": {"handlers": ["h"], "level": "INFO"}}'
    )
    ini = """
        [loggers]
        keys=root
        [handlers]
        keys=h
        [formatters]
        keys=f
        [logger_root]
        level=INFO
        handlers=h
        [handler_h]
        class=StreamHandler
        formatter=f
        [formatter_f]
        format=INI %(message)s
    """
    (tmp_path / "log.ini").write_text(textwrap.dedent(ini))
    said = log_of(start, environment, tmp_path, app, *arguments)
    (found,) = [line for line in said.splitlines() if "failed for good" in line]
    assert found.startswith(begin)
    assert re.search(
        r"\(break, attempt 1\) of queue orders failed for good: ValueError at .*shop\.py:\d+ in break_$", found
    )
    assert "no such order" not in said
    assert ("serving" in said) == ("--log-level" not in arguments)


def test_a_log_that_raises_ends_neither_workers_nor_their_supervisor(
    start: Start, environment: dict[str, str], tmp_path: Path
) -> None:
    app = """
import logging

class Raises(logging.Filter):
    def filter(self, record):
        raise KeyError("request_id")

logging.basicConfig(level="INFO")
logging.getLogger().handlers[0].addFilter(Raises())
"""
    (tmp_path / "shop.py").write_text(app + textwrap.dedent(APP))
    dies = [sys.executable, "-c", "import shop; shop.die.push(); shop.break_.push()"]
    subprocess.run(dies, cwd=tmp_path, env=environment, check=True)
    worker = start("worker", "shop", "--processes", "2", "--lease", "0.3")
    queue = duly.Client(environment["URL"], prefix=environment["PREFIX"]).queue("orders")
    until(lambda: queue.counts().failed == 2, "a job did not fail")
    worker.terminate()
    out, said = worker.communicate(timeout=30)
    assert worker.returncode == 0, said
    for line in ("duly: serving orders", "another one starts in", "of queue orders failed for good: ValueError at "):
        assert line in out + said
    assert "(logging it raised KeyError at " in out + said


def test_messages_are_logged_for_who_asks(start: Start, environment: dict[str, str], tmp_path: Path) -> None:
    assert "ValueError: no such order" in log_of(start, environment, tmp_path, "", "--log-errors", "full")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--log-config", "none.json"], "--log-config none.json cannot be used: FileNotFoundError"),
        (["--log-config", "shop.py"], "--log-config shop.py cannot be used"),
        (["--no-logging", "--log-level", "debug"], "--no-logging goes with neither"),
    ],
)
def test_a_wrong_log_config_is_refused(arguments: list[str], said: str, start: Start) -> None:
    worker = start("worker", "shop", *arguments)
    _, err = worker.communicate(timeout=30)
    assert worker.returncode == 2
    assert said in err


@pytest.mark.parametrize("command", [["worker", "shop:app", "--url"], ["queues"]])
def test_a_url_in_the_wrong_place_shows_no_password(command: list[str]) -> None:
    url = "redis://user:secret@localhost:1/0"
    ended = subprocess.run([sys.executable, "-m", "duly", *command, url], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "redis://user:***@localhost:1/0" in ended.stderr
    assert "secret" not in ended.stdout + ended.stderr
