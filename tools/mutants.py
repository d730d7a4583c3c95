#!/usr/bin/env python3
"""Takes each guard out of the scripts in turn and expects a test to notice.

    tools/mutants.py                  all of them
    tools/mutants.py once reserve     those of these files
    tools/mutants.py --since COMMIT   those that the list of that commit does not have
    tools/mutants.py --write          writes docs/mutants.md

The scripts' text is altered when a test assembles it, so nothing is built anew. A text that is no longer in its file,
or there more than once, is an error at once: the list in `guards.py` follows the scripts.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import runpy
import shutil
import subprocess
import sys
import tempfile
import time

from guards import MUTANTS

ROOT = pathlib.Path(__file__).resolve().parent.parent
LUA = ROOT / "core" / "lua"
DOC = ROOT / "docs" / "mutants.md"

LONG_TEST = "model::differential"
SHAPE = ["--workspace", "--features", "duly/opentelemetry", "--profile", "soak", "--lib"]
"""As `tools/soak.sh` builds what runs very many cases."""


def path_of(name: str) -> pathlib.Path:
    script = LUA / f"{name}.lua"
    return script if script.exists() else LUA / "lib" / f"{name}.lua"


def check() -> None:
    """Every guard is where the list says."""
    wrong = []
    for file, text, _, _ in MUTANTS:
        found = path_of(file).read_text().count(text) if path_of(file).exists() else 0
        if found != 1:
            wrong.append(f"{file}.lua has this {found} times: {text!r}")
    if wrong:
        sys.exit("the list of mutants does not fit the scripts:\n  " + "\n  ".join(wrong))


def write() -> None:
    lines = [
        "# Mutants",
        "",
        "Each guard in the scripts, and what happens without it. `tools/mutants.py` takes out one after the other",
        "and runs the tests of `core/model` against the altered script on a real server; a mutant that no test",
        "notices fails the run. This list is written by `tools/mutants.py --write`.",
        "",
        "The last full run, over 297 guards, caught 292. Two of the others guarded against nothing and are gone, and",
        "the other three have tests of their own since, which catch them. Of the 77 guards that came or changed after",
        "it, a run of these alone (`--since`) caught 72 in November 2026. Tests that were written then catch the other",
        "five (in `push_unique`, `beat`, `came_back`, `lease_ended` and `start`), and two more in `purge`.",
        "",
        "| file | guard | without it |",
        "|---|---|---|",
    ]
    for file, text, replacement, prevents in MUTANTS:
        guard = " ".join(text.split())
        shown = f"`{guard}`" + (f" becomes `{' '.join(replacement.split())}`" if replacement.strip() else "")
        lines.append(f"| {file} | {shown} | {prevents} |".replace("||", "\\|\\|"))
    DOC.write_text("\n".join(lines) + "\n")


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


def run(program: str, file: str, text: str, replacement: str) -> tuple[bool, str, float]:
    """Was it caught, by what, and how long that took. The long test runs only if the short ones noticed nothing."""
    altered = {"DULY_MUTANT_FILE": file, "DULY_MUTANT_TEXT": text, "DULY_MUTANT_WITH": replacement}
    started = time.monotonic()
    failed: list[str] = []
    for tests in (["model::", "--skip", LONG_TEST], [LONG_TEST]):
        failed = failed or failing(program, tests, altered)
    return bool(failed), ", ".join(name.rsplit("::", 1)[1] for name in failed), time.monotonic() - started


def failing(program: str, tests: list[str], altered: dict[str, str]) -> list[str]:
    done = subprocess.run(
        [program, *tests],
        env=os.environ | altered | {"RUST_BACKTRACE": "0"},
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    failed = [
        line.split()[1] for line in done.stdout.splitlines() if line.startswith("test ") and line.endswith("FAILED")
    ]
    if done.returncode != 0 and not failed:
        sys.exit(f"the tests did not run:\n{done.stdout}")
    return failed


def known_at(commit: str) -> set[tuple[str, str, str]]:
    """The mutants that the list had at that commit, without their reasons."""
    show = ["git", "show", f"{commit}:tools/guards.py"]
    with tempfile.NamedTemporaryFile(suffix=".py") as then:
        subprocess.run(show, cwd=ROOT, check=True, stdout=then)
        return {mutant[:3] for mutant in runpy.run_path(then.name)["MUTANTS"]}


def main() -> None:
    check()
    asked = argparse.ArgumentParser()
    asked.add_argument("files", nargs="*")
    asked.add_argument("--since")
    asked.add_argument("--write", action="store_true")
    given = asked.parse_args()
    if given.write:
        write()
        return
    known = known_at(given.since) if given.since else set()
    chosen = [m for m in MUTANTS if m[:3] not in known and (not given.files or m[0] in given.files)]
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        program = test_program(folder)
        pool = concurrent.futures.ThreadPoolExecutor(2)
        results = pool.map(lambda mutant: run(program, *mutant[:3]), chosen)
        for (file, text, _, prevents), (caught, by, seconds) in zip(chosen, results, strict=True):
            if not caught:
                survivors.append((file, text))
            guard = " ".join(text.split())[:70]
            print(
                f"{'caught  ' if caught else 'SURVIVED'} {seconds:5.1f} s  {file:15} {guard:70}  {by or prevents}",
                flush=True,
            )
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants were caught")
    if survivors:
        sys.exit("not caught:\n  " + "\n  ".join(f"{file}: {text!r}" for file, text in survivors))


if __name__ == "__main__":
    main()
