#!/usr/bin/env python3
"""Takes each guard out of the scripts in turn and expects a test to notice.

    tools/mutants.py                  all of them
    tools/mutants.py once reserve     those of these files, and of the files in these folders of the library
    tools/mutants.py --since COMMIT   those that the files of that commit do not have
    tools/mutants.py --list           prints the guards, and what happens without each
    tools/mutants.py --check          says whether each mark means code, and leaves a script that Lua compiles

A guard is marked where it is, in `core/lua`, by a comment that says what happens without it. The mark stands directly
above the line of code that it means; several may stand there:

    -- without: what happens                       that line is taken out
    -- without 3 lines: what happens               that line and the next two lines of code are taken out
    -- without `this`: what happens                this part of the line is taken out
    -- with `that`: what happens                   the line becomes that
    -- with `that` for `this`: what happens        the part becomes that

A comment line that begins like a mark and is none is an error at once, and so is a part that is not there exactly once,
and a mark whose script Lua cannot compile: any test would notice that one.
The text of a script is altered when a test assembles it, so nothing is built anew.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
LUA = ROOT / "core" / "lua"

LONG_TEST = "model::differential::scripts_do_what_the_model_does"
FEW_CASES = "60"
"""So many of the long test take a second."""
LONGEST_RUN_S = 600
"""Some twenty times as long as the tests need."""
ENDLESS = "::it does not end"
MOST_NOTED = 8
"""Of the tests that have caught something, so many are tried first."""
NOTES = ROOT / "build" / "mutants.json"
SHAPE = ["--workspace", "--features", "duly/opentelemetry", "--profile", "soak", "--lib"]
"""As `tools/soak.sh` builds what runs very many cases."""


MARK = re.compile(
    r"-- with(?:out(?: `(?P<gone>[^`]+)`| (?P<count>[1-9]\d*) lines)?| `(?P<instead>[^`]+)`(?: for `(?P<part>[^`]+)`)?)"
    r": (?P<effect>\S.*)"
)
INCLUDE = "--- include: "


class Guard(NamedTuple):
    file: str
    text: str
    replacement: str
    effect: str
    line: int
    altered: str
    """The file without the guard."""

    def change(self) -> tuple[str, str, str]:
        return self.file, self.text, self.replacement


def guards_in(path: pathlib.PurePath, content: str) -> Iterator[Guard]:
    lines = content.splitlines()
    marks: list[tuple[int, re.Match[str]]] = []
    for at, line in enumerate(map(str.strip, lines)):
        if line.startswith(("-- with ", "-- without")):
            mark = MARK.fullmatch(line)
            if not mark:
                sys.exit(f"{path}:{at + 1}: this begins like a mark of a guard and is none")
            marks.append((at, mark))
        elif is_code(line):
            for marked_at, mark in marks:
                yield guard_of(path, lines, at, marked_at, mark)
            marks = []
        elif marks:
            sys.exit(f"{path}:{at}: a mark stands directly above the code that it means")
    if marks:
        sys.exit(f"{path}:{len(lines)}: there is no code behind this mark")


def is_code(line: str) -> bool:
    return line.startswith(INCLUDE) or (line != "" and not line.startswith("--"))


def guard_of(path: pathlib.PurePath, lines: list[str], at: int, marked_at: int, mark: re.Match[str]) -> Guard:
    part, replacement = mark["gone"] or mark["part"], mark["instead"] or ""
    altered = list(lines)
    if part:
        text = part
        found = lines[at].count(part)
        if found != 1:
            sys.exit(f"{path}:{marked_at + 1}: the line that this means has `{part}` {found} times")
        altered[at] = lines[at].replace(part, replacement)
    else:
        count = int(mark["count"] or 1)
        meant = [k for k in range(at, len(lines)) if is_code(lines[k].strip())][:count]
        if len(meant) < count:
            sys.exit(f"{path}:{marked_at + 1}: there are not {count} lines of code behind this")
        text = "\n".join(lines[k].strip() for k in meant)
        for k in meant:
            altered[k] = ""
        altered[at] = replacement
    return Guard(name_of(path), text, replacement, mark["effect"], marked_at + 1, "\n".join(altered))


def name_of(path: pathlib.PurePath) -> str:
    """As `core/src/script` calls the file: by its path, those of the library without its folder."""
    name = path.relative_to(LUA.relative_to(ROOT)).with_suffix("").as_posix()
    return name.removeprefix("lib/")


def do_not_compile(guards: list[Guard]) -> list[str]:
    """What Lua says of them. A part may leave the loop of the script that includes it."""

    def complaint(guard: Guard) -> str | None:
        text = f"while true do\n{guard.altered}\nend"
        compiled = subprocess.run(["luac5.1", "-p", "-"], input=text, capture_output=True, text=True, check=False)
        said = compiled.stderr.strip().removeprefix("luac5.1: ")
        return f"{guard.file}:{guard.line}: {guard.effect}: {said}" if compiled.returncode else None

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return [said for said in pool.map(complaint, guards) if said]


def is_of(guard: Guard, names: list[str]) -> bool:
    return any(name in (guard.file, *guard.file.rsplit("/", 1)) for name in names)


def guards_now() -> list[Guard]:
    paths = sorted(LUA.rglob("*.lua"), key=lambda path: (path.parent, path.stem))
    return [guard for path in paths for guard in guards_in(path.relative_to(ROOT), path.read_text())]


def known_at(commit: str) -> set[tuple[str, str, str]]:
    """The changes that the marks of that commit made, without their reasons."""
    tree = LUA.relative_to(ROOT)
    listed = git("ls-tree", "-r", "--name-only", commit, f"{tree}/")
    paths = [pathlib.PurePath(path) for path in listed.splitlines() if path.endswith(".lua")]
    known = {guard.change() for path in paths for guard in guards_in(path, git("show", f"{commit}:{path}"))}
    return known or sys.exit(f"{commit} is older than the marks in the scripts")


def git(*command: str) -> str:
    return subprocess.run(["git", *command], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def listed(guards: list[Guard]) -> str:
    lines = []
    for guard in guards:
        becomes = f"  becomes  {guard.replacement}" if guard.replacement else ""
        lines.append(f"{guard.file}:{guard.line}: {guard.effect}\n    {one_line(guard.text)}{becomes}")
    return "\n".join([*lines, f"{len(guards)} guards"])


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_program(folder: str) -> str:
    built = subprocess.run(
        ["cargo", "test", *SHAPE, "--no-run", "--message-format", "json"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    artifacts = [message for message in messages if message.get("reason") == "compiler-artifact"]
    programs = [artifact["executable"] for artifact in artifacts if artifact["target"]["name"] == "duly"]
    # A copy, because the next build would replace it in the middle of the run.
    (built_program,) = (program for program in programs if program)
    return shutil.copy(built_program, folder)


class Caught:
    """Which tests have caught mutants of which file, the latest first: one is likely to catch the next, too.

    It is kept for the next run, and only saves time: what these tests do not catch is tried with all.
    """

    def __init__(self) -> None:
        self.by_file: dict[str, list[str]] = json.loads(NOTES.read_text()) if NOTES.exists() else {}
        self.lock = threading.Lock()

    def note(self, file: str, test: str) -> None:
        with self.lock:
            for name in (file, "") if test != LONG_TEST else ():
                tests = self.by_file.setdefault(name, [])
                tests[:] = [test, *(other for other in tests if other != test)][:MOST_NOTED]
            NOTES.parent.mkdir(exist_ok=True)
            NOTES.write_text(json.dumps(self.by_file, indent=1, sort_keys=True))

    def likely(self, file: str) -> list[str]:
        """Those of the file, and those that caught the latest mutants of any file."""
        with self.lock:
            return list(dict.fromkeys([*self.by_file.get(file, []), *self.by_file.get("", [])]))


def run(program: str, guard: Guard, caught: Caught) -> tuple[bool, str, float]:
    """Was it caught, by what, and how long that took. More tests run only if fewer ones noticed nothing."""
    altered = {"DULY_MUTANT_FILE": guard.file, "DULY_MUTANT_CODE": guard.altered}
    started = time.monotonic()
    few = altered | {"DULY_MODEL_CASES": FEW_CASES}
    failed = failing(program, ["--exact", *caught.likely(guard.file), LONG_TEST], few)
    for tests in (["model::", "--skip", LONG_TEST], [LONG_TEST]):
        failed = failed or failing(program, tests, altered)
    # A test that does not end would be tried first for each later one.
    if failed and failed[0] != ENDLESS:
        caught.note(guard.file, failed[0])
    return bool(failed), ", ".join(name.rsplit("::", 1)[1] for name in failed), time.monotonic() - started


def failing(program: str, tests: list[str], altered: dict[str, str]) -> list[str]:
    """The first of these tests that fails; the others are not waited for."""
    # What it leaves when it is killed goes with the folder.
    with tempfile.TemporaryDirectory() as folder:
        running = subprocess.Popen(
            [program, *tests],
            env=os.environ | altered | {"RUST_BACKTRACE": "0", "TMPDIR": folder},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert running.stdout is not None
        # With the servers of its tests, one of which may run a script without an end.
        too_long = threading.Timer(LONGEST_RUN_S, os.killpg, (running.pid, signal.SIGKILL))
        too_long.start()
        said = ""
        for line in running.stdout:
            said += line
            if line.startswith("test ") and line.endswith("FAILED\n"):
                too_long.cancel()
                os.killpg(running.pid, signal.SIGKILL)
                running.communicate()
                return [line.split()[1]]
        too_long.cancel()
        running.communicate()
    if running.returncode == -signal.SIGKILL:
        return [ENDLESS]
    if running.returncode != 0:
        sys.exit(f"the tests did not run:\n{said}")
    return []


def main() -> None:
    guards = guards_now()
    asked = argparse.ArgumentParser()
    asked.add_argument("files", nargs="*")
    asked.add_argument("--since")
    asked.add_argument("--list", action="store_true")
    asked.add_argument("--check", action="store_true")
    given = asked.parse_args()
    if given.list:
        print(listed(guards))
        return
    if given.check:
        if wrong := do_not_compile(guards):
            sys.exit("a mark must leave a script that Lua compiles:\n  " + "\n  ".join(wrong))
        return
    known = known_at(given.since) if given.since else set()
    chosen = [
        guard for guard in guards if guard.change() not in known and (not given.files or is_of(guard, given.files))
    ]
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        program = test_program(folder)
        # Else a test that fails anyhow would catch them all.
        if failed := failing(program, ["model::"], {}):
            sys.exit(f"without any change, this fails: {', '.join(failed)}")
        caught_by = Caught()
        pool = concurrent.futures.ThreadPoolExecutor(2)
        results = pool.map(lambda guard: run(program, guard, caught_by), chosen)
        for guard, (caught, by, seconds) in zip(chosen, results, strict=True):
            place = f"{guard.file}:{guard.line}"
            if not caught:
                survivors.append(f"{place}: {guard.effect}")
            print(
                f"{'caught  ' if caught else 'SURVIVED'} {seconds:5.1f} s  {place:19} {one_line(guard.text)[:66]:66}"
                f"  {by or guard.effect}",
                flush=True,
            )
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants were caught")
    if survivors:
        sys.exit("not caught:\n  " + "\n  ".join(survivors))


if __name__ == "__main__":
    main()
