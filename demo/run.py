"""The whole story on real parts: `make demo`, or `make demo ARGS=thinkphp` for that part alone.

A private redis-server, a web shop in PHP, workers in Python, PHP and Rust, an SQLite database. Where a ThinkPHP is
given (`DULY_THINK_VENDOR`), the shop is also a controller of it. This file only directs: it asks the shop over HTTP,
kills a worker in the middle of a job, prints what happens, and at the end checks that nothing was lost, started early,
or was done twice. Ends with 0 if all is well; on a terminal it shows jobs in `duly web` before, until Ctrl-C.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import duly

from demo import page, think_app
from demo.ledger import Ledger
from demo.stage import Event, Process, Stage, Timeline

DEMO = Path(__file__).resolve().parent
RETRY_DELAYS = [0.4, 0.8]  # as the shop sets them
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", DEMO.parent / "target"))
RUST_WORKER = TARGET / "debug/examples/worker"  # as tools/build.sh --dev builds it
LANGUAGES = {"python": "Python", "php": "PHP", "rust": "Rust"}


class Story:
    def __init__(self, folder: Path, terminal: contextlib.ExitStack) -> None:
        self.folder = folder
        self.terminal = terminal  # what must be undone on it, after everything else
        self.database = folder / "shop.sqlite"
        url = f"embedded:{folder / 'redis'}"
        environment = {**os.environ, "DULY_URL": url, "DEMO_DB": str(self.database)}
        self.time = Timeline()
        self.ledger = Ledger()
        self.stage = Stage(environment)
        self.stage.on_event = self.on_event
        self.client = duly.Client(url)
        self.orders, self.letters = self.client.queue("orders"), self.client.queue("letters")
        self.shop_url = ""
        self.states: dict[int, str] = {}  # of the orders, as they must be in the end

    # What the workers tell, as it comes ------------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        who, what = event["who"], event["what"]
        job: str = event.get("job", "")
        if what == "pushed":
            self.ledger.pushed(job, event["about"], self.due(self.letters, job))
        elif what == "started":
            run = self.ledger.started(job, who, event["attempt"], event["token"], event["at"])
            again = "" if event["attempt"] == 1 else f", run {event['attempt']}"
            self.time.line(who, f"starts {event['about']}{again}", run.late_ms)
        elif what == "failed":
            self.ledger.ended(job, event["token"], "failed")
            left = event["attempt"] <= len(RETRY_DELAYS)
            if left:
                wait = RETRY_DELAYS[event["attempt"] - 1]
                # The server adds the delay a moment later, when it hears of the failure: not before this, at least.
                self.ledger.due_again(job, event["at"] + wait)
            self.time.line(who, f"fails {event['about']}: " + (f"again in {wait} s" if left else "no retries left"))
        elif what == "done":
            self.ledger.ended(job, event["token"], "done")
            verb = "closes" if event["about"].startswith("order") else "sends"
            self.time.line(who, f"{verb} {event['about']}")

    # Small things that the scenes need -------------------------------------------------------------------------

    @staticmethod
    def due(queue: duly.Queue, job: str) -> float:
        """When a job is due, or its lease over, by the server's clock."""
        found = queue.find(job)
        if found is None or found.at is None:
            raise RuntimeError(f"job {job} should have a due time or a lease, but is {found!r}")
        return found.at

    def ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.shop_url + path, data=data, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def order(self, number: int, pay_within: float, trouble: str = "") -> str:
        """POST /orders, as a customer's browser would."""
        body = {"order": number, "pay_within": pay_within, "trouble": trouble}
        job: str = self.ask("POST", "/orders", body)["job"]
        self.ledger.pushed(job, f"order {number}", self.due(self.orders, job))
        but = f"; {trouble}" if trouble else ""
        self.states[number] = "closed"
        self.time.line("shop", f"POST /orders: {number} closes in {pay_within} s unless paid{but}")
        return job

    def pay(self, number: int, job: str) -> None:
        if not self.ask("POST", f"/orders/{number}/pay")["cancelled"]:
            raise RuntimeError(f"the shop found no job to cancel for order {number}")
        self.states[number] = "paid"
        self.ledger.cancelled(job)
        self.time.line("shop", f"POST /orders/{number}/pay: its job is cancelled by the key close:{number}")

    def worker(self, who: str, command: list[str | Path]) -> Process:
        process = self.stage.wait_ready(self.stage.start(who, command))
        self.time.line(who, f"a worker in {LANGUAGES[who]} waits for jobs (pid {process.popen.pid})")
        return process

    def python_worker(self) -> Process:
        return self.worker("python", [sys.executable, DEMO / "worker.py"])

    def stop(self, process: Process) -> None:
        status = self.stage.stop(process)
        if status != 0:
            raise RuntimeError(f"the worker in {process.who} ended with {status}:\n{''.join(process.log)}")
        self.time.line(process.who, "SIGTERM: the worker leaves, with nothing left behind")

    # The scenes ------------------------------------------------------------------------------------------------

    def opening(self) -> None:
        self.time.scene("A private redis-server, a shop in PHP, a worker in Python")
        self.client.ping()
        self.time.line("demo", "redis-server runs on a unix socket, with an append-only file")
        for queue in (self.orders, self.letters):
            queue.keep_history()
        self.time.line("demo", "both queues keep a history, so that the life of a job is known when it is gone")
        with sqlite3.connect(self.database) as db:
            db.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY, state TEXT, trouble TEXT, token INTEGER)")
        db.close()

    def open_shop(self, *script: str | Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        shop = self.stage.start("shop", ["php", "-S", address, *script])
        self.shop_url = f"http://{address}"
        self.until_it_answers(shop)
        self.time.line("shop", f"php -S serves {self.shop_url}")

    def until_it_answers(self, shop: Process) -> None:
        give_up_at = time.monotonic() + 10
        while True:
            try:
                urllib.request.urlopen(self.shop_url, timeout=10).close()
                return
            except urllib.error.HTTPError:
                return  # there is no such page, it says
            except OSError as error:
                if time.monotonic() > give_up_at or shop.popen.poll() is not None:
                    raise RuntimeError(f"the shop does not answer ({error}):\n{''.join(shop.log)}") from error
                time.sleep(0.02)

    def unpaid_orders_are_closed(self) -> Process:
        worker = self.python_worker()
        self.order(1, 1.5)
        paid = self.order(2, 1.5)
        self.order(3, 2.0)
        self.pay(2, paid)
        self.stage.wait_for("done", about="order 1")
        self.stage.wait_for("done", about="order 3")
        return worker

    def failures_are_retried(self) -> None:
        self.time.scene("Handlers that fail: retried by the policy; when nothing helps, kept in failed")
        self.order(4, 0.5, "the bank answers at the third call")
        hopeless = self.order(5, 0.5, "the bank is closed")
        self.stage.wait_for("done", about="order 4")
        self.stage.wait_for("failed", about="order 5", attempt=len(RETRY_DELAYS) + 1)
        failed = self.until_failed(hopeless)
        error = failed["error"].splitlines()[0]
        self.time.line("shop", f"GET /failed: {failed['job']}, {failed['attempts']} failures, '{error}'")
        with sqlite3.connect(self.database) as db:
            db.execute("UPDATE orders SET trouble = '' WHERE number = 5")
        db.close()
        self.time.line("demo", "the bank opens again")
        # Not before it was asked for, at least.
        self.ledger.due_again(hopeless, time.time())
        self.time.line("shop", "POST /failed/…/requeue: round again, with a clean count")
        self.ask("POST", f"/failed/{hopeless}/requeue")
        self.stage.wait_for("done", about="order 5")
        outcomes = ", ".join(str(run.outcome) for run in self.until_done(hopeless))
        self.time.line("demo", f"duly trace orders {hopeless}: {outcomes}")

    def until_done(self, job: str) -> list[duly.TraceRun]:
        """The worker reports the end of a run before the server knows: asks until it does."""
        give_up_at = time.monotonic() + 5
        while time.monotonic() < give_up_at:
            trace = self.orders.trace(job)
            if trace is not None and trace.runs[-1].outcome == "done":
                return trace.runs
            time.sleep(0.01)
        raise RuntimeError(f"the history of job {job} does not say that it is done")

    def until_failed(self, job: str) -> Any:
        """The worker reports a failure before the server knows: asks until it does."""
        give_up_at = time.monotonic() + 5
        while time.monotonic() < give_up_at:
            for failed in self.ask("GET", "/failed"):
                if failed["job"] == job:
                    return failed
            time.sleep(0.01)
        raise RuntimeError(f"job {job} is not in failed")

    def a_worker_is_killed(self, worker: Process) -> Process:
        self.time.scene("The worker is killed with -9 in the middle of a job")
        job = self.order(6, 0.5, "it takes long")
        self.stage.wait_for("started", about="order 6")
        worker.popen.kill()
        worker.popen.wait()
        # The server does not know; it only sees that nobody extends the lease any more.
        self.ledger.due_again(job, self.due(self.orders, job))
        self.ledger.ended(job, self.ledger.jobs[job].runs[0].token, "killed")
        self.time.line("python", f"kill -9 {worker.popen.pid} in the middle of order 6")
        found = self.orders.find(job)
        self.time.line("demo", f"where is it? {found.why if found else 'gone'}")
        # A first crash is not counted, so the handler cannot know from `job.attempt` that this is another run.
        with sqlite3.connect(self.database) as db:
            db.execute("UPDATE orders SET trouble = '' WHERE number = 6")
        db.close()
        worker = self.python_worker()
        self.stage.wait_for("done", about="order 6")
        return worker

    def the_roles_turn(self) -> None:
        self.time.scene("The roles turn: a producer in Python, a worker in PHP")
        self.letters_are_sent("php", ["php", DEMO / "worker.php"])
        self.time.scene("... and one in Rust")
        self.letters_are_sent("rust", [RUST_WORKER])

    def letters_are_sent(self, who: str, command: list[str | Path]) -> None:
        worker = self.worker(who, command)
        producer = self.stage.start("producer", [sys.executable, DEMO / "producer.py", "3", "0.7"])
        if producer.popen.wait(timeout=10) != 0:
            raise RuntimeError(f"the producer failed:\n{''.join(producer.log)}")
        pushed = [self.stage.wait_for("pushed", pid=producer.popen.pid, about=f"letter {n}") for n in (1, 2, 3)]
        self.time.line("producer", "producer.py: 3 letters, to be sent in 0.7 s, and ends")
        for event in pushed:
            self.stage.wait_for("done", job=event["job"])
        self.stop(worker)

    def the_shop_is_in_thinkphp(self, thinkphp: Path) -> None:
        self.time.scene("The shop as a controller of ThinkPHP; the worker stays in Python")
        public = think_app.make(thinkphp, self.folder / "thinkphp")
        self.open_shop("-t", public, public / "index.php")
        worker = self.python_worker()
        self.order(7, 1.0)
        paid = self.order(8, 1.0)
        self.pay(8, paid)
        self.stage.wait_for("done", about="order 7")
        self.stop(worker)

    def the_page_is_open(self) -> None:
        """Jobs like those of the story, in every state: they are no part of the verdict."""
        self.time.scene("The page: more orders and letters, for you to look at")
        self.stage.on_event = self.tell
        worker = self.python_worker()
        self.order(12, 0.2, "the bank is closed")
        self.stage.wait_for("failed", about="order 12", attempt=len(RETRY_DELAYS) + 1)
        with sqlite3.connect(self.database) as db:
            db.execute("UPDATE orders SET trouble = '' WHERE number = 12")
        db.close()
        for number in (13, 14, 15):
            self.order(number, 600.0 * (number - 10))
        producer = self.stage.start("producer", [sys.executable, DEMO / "producer.py", "3", "0"])
        self.stage.wait_for("pushed", about="letter 3", pid=producer.popen.pid)
        self.time.line("producer", "producer.py: 3 letters, due now; no worker serves them")
        self.order(11, 0.1, "it takes long")
        self.stage.wait_for("started", about="order 11")
        web, address = page.serve(self.stage)
        self.terminal.enter_context(page.ctrl_c_for_us_alone())
        print(f"\n  Open this address. It signs in one browser, once:\n\n  {address}\n")
        print(f"  A worker (pid {worker.popen.pid}) serves the orders: run one now, or again, and it closes it.")
        print("  Ctrl-C stops the page and all that the demo has started.\n", flush=True)
        try:
            status = web.popen.wait()
        except KeyboardInterrupt:
            return
        raise RuntimeError(f"the page ended with {status}:\n{''.join(web.log)}")

    def tell(self, event: Event) -> None:
        who, what = event["who"], event["what"]
        if verb := {"started": "starts", "failed": "fails", "done": "closes"}.get(what):
            self.time.line(who, f"{verb} {event['about']}")

    def verdict(self) -> int:
        self.time.scene("What is left")
        problems = self.ledger.problems()
        for queue in (self.orders, self.letters):
            counts = queue.counts()
            left = {state: getattr(counts, state) for state in ("delayed", "ready", "reserved", "failed")}
            self.time.line("demo", f"queue {queue.name}: " + ", ".join(f"{n} {state}" for state, n in left.items()))
            if any(left.values()):
                problems.append(f"the queue {queue.name} is not empty")
        with sqlite3.connect(self.database) as db:
            states = dict(db.execute("SELECT number, state FROM orders"))
        db.close()
        if states != self.states:
            problems.append(f"the shop's database says {states}")
        late = self.ledger.lateness_ms()
        median, most = late[len(late) // 2], late[-1]
        figures = (
            f"{len(self.ledger.jobs)} jobs, {len(late)} runs; late by {median:.1f} ms (median), {most:.1f} ms at most"
        )
        self.time.line("demo", figures)
        for problem in problems:
            self.time.line("PROBLEM", problem)
        if not problems:
            self.time.line("demo", "nothing lost, nothing early, nothing done twice")
        return 1 if problems else 0

    def play(self, thinkphp: Path | None) -> int:
        with self.stage.cleared_at_the_end():
            self.opening()
            self.open_shop(DEMO / "shop.php")
            shop_url = self.shop_url
            worker = self.unpaid_orders_are_closed()
            self.failures_are_retried()
            worker = self.a_worker_is_killed(worker)
            self.stop(worker)
            self.the_roles_turn()
            if thinkphp is not None:
                self.the_shop_is_in_thinkphp(thinkphp)
            verdict = self.verdict()
            if thinkphp is None:
                self.time.line("demo", think_app.HOW_TO_GET_IT)
            is_shown = verdict == 0 and page.is_wanted()
            if is_shown:
                self.shop_url = shop_url
                self.the_page_is_open()
        if is_shown:
            print("\n  stopped; nothing is left running", flush=True)
        return verdict

    def play_thinkphp(self, thinkphp: Path) -> int:
        with self.stage.cleared_at_the_end():
            self.opening()
            self.the_shop_is_in_thinkphp(thinkphp)
            return self.verdict()


def what_is_missing(part: str) -> str | None:
    if part not in ("", "thinkphp"):
        return f"there is no part {part!r}: make demo, or make demo ARGS=thinkphp"
    if subprocess.run(["php", "--ri", "duly"], capture_output=True, check=False).returncode != 0:
        return "php does not load the extension: use `make demo`, which builds it and says where it is"
    if part == "thinkphp" and think_app.vendor() is None:
        return think_app.HOW_TO_GET_IT
    if part == "" and not RUST_WORKER.exists():
        return f"{RUST_WORKER} is missing: use `make demo`, which builds it"
    return None


def play_in(folder: Path, part: str, terminal: contextlib.ExitStack) -> int:
    """The client lives here, and with it our place among the users of the server."""
    story, thinkphp = Story(folder, terminal), think_app.vendor()
    return story.play_thinkphp(thinkphp) if part and thinkphp else story.play(thinkphp)


def tidy_up(folder: Path) -> None:
    """The server ends by itself when we, its last user, have left; it holds this lock until then."""
    gc.collect()  # the story and its stage refer to each other
    with contextlib.suppress(OSError), (folder / "redis/server.lock").open() as lock:
        give_up_at = time.monotonic() + 5
        while time.monotonic() < give_up_at:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                break
            time.sleep(0.02)
    shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    if missing := what_is_missing(part):
        print(missing, file=sys.stderr)
        return 2
    # As Ctrl-C, so Ctrl-\ (SIGQUIT): end all that was started. A closed terminal, too, except where somebody said to
    # outlive it (nohup).
    for number in (signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="duly-demo-"))
    with contextlib.ExitStack() as terminal:
        return direct(folder, part, terminal)


def direct(folder: Path, part: str, terminal: contextlib.ExitStack) -> int:
    try:
        return play_in(folder, part, terminal)
    except KeyboardInterrupt:
        print("\n  stopped; nothing is left running", file=sys.stderr)
        return 130
    except (RuntimeError, OSError, duly.DulyError) as error:
        print(f"\n  the demo failed: {error}", file=sys.stderr)
        return 1
    finally:
        tidy_up(folder)


if __name__ == "__main__":
    sys.exit(main())
