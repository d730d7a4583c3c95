"""Runs every fenced block of README and docs, because an example that is not run is wrong sooner or later.

Python and PHP blocks run as scripts of their own against the embedded server of a fresh folder (`DULY_URL`), Python
blocks that have tests under pytest; shell blocks are checked for syntax, JSON and TOML blocks are parsed; Rust blocks
are compiled by rustdoc, and the test here only asks that the crate includes their file. Output, diagrams and other
things that cannot run are `text`, `console` or `mermaid` blocks. A comment on the line before a block changes how it
runs:

    <!-- stop when it says: closed order 42 -->   for one that runs for ever: SIGTERM, and it must end with 0
    <!-- expect: closed order 42 -->              this text must be in what it prints
    <!-- not run: needs your own cluster -->      a reason is needed
"""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import until

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NOTHING_TO_RUN = {"text", "console", "mermaid"}
LONGEST_S = 60
CHECKOUT = "/srv/duly"  # where the pages assume one


@dataclass(frozen=True)
class Block:
    file: Path
    line: int
    language: str
    comment: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}"


def blocks_of(file: Path) -> list[Block]:
    found: list[Block] = []
    lines = file.read_text(encoding="utf-8").splitlines()
    start: int | None = None
    for number, line in enumerate(lines):
        if not line.lstrip().startswith("```"):
            continue
        if start is None:
            start = number
            continue
        opening = lines[start]
        indent = len(opening) - len(opening.lstrip())
        language = re.split(r"[\s,]", opening.strip().removeprefix("```"))[0]
        comment = lines[start - 1].strip() if start else ""
        text = "\n".join(text[indent:] for text in lines[start + 1 : number]) + "\n"
        found.append(Block(file, start + 1, language, comment if comment.startswith("<!--") else "", text))
        start = None
    assert start is None, f"{file}: the block of line {start} is not closed"
    return found


BLOCKS = [block for file in FILES for block in blocks_of(file)]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_example(block: Block, tmp_path: Path) -> None:
    if "not run:" in block.comment:
        assert re.search(r"not run: \w{2,}", block.comment), "say why it is not run"
        return
    match block.language:
        case "python" if re.search(r"^(async )?def test_", block.text, re.MULTILINE):
            pytest_here = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
            run(block, [sys.executable, "-X", "dev", *pytest_here], "test_it.py", tmp_path)
        case "python":
            run(block, [sys.executable, "-X", "dev"], "example.py", tmp_path)
        case "php":
            command = ["php", "-d", "error_reporting=-1", "-d", "display_errors=stderr", "-d", f"include_path={ROOT}"]
            run(block, command, "example.php", tmp_path)
        case "sh" | "bash":
            subprocess.run(["bash", "-n", "-c", block.text], check=True, timeout=LONGEST_S)
        case "json":
            json.loads(block.text)
        case "toml":
            importlib.import_module("tomllib").loads(block.text)  # in Python since 3.11, which the tests need
        case "rust":
            included = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "core/src").rglob("*.rs"))
            assert f'{block.file.relative_to(ROOT)}")' in included, "include the file in a doctest of the crate"
        case language:
            assert language in NOTHING_TO_RUN, f"a block in {language or 'no language'} is checked by nothing"


def run(block: Block, command: list[str], name: str, folder: Path) -> None:
    script = folder / name
    opening = "" if block.language != "php" or block.text.startswith("<?php") else "<?php\n"
    script.write_text(opening + block.text.replace(CHECKOUT, str(ROOT)), encoding="utf-8")
    environment = {**os.environ, "DULY_URL": f"embedded:{folder / 'server'}", "PYTHONUNBUFFERED": "1"}
    stop = re.search(r"stop when it says: (.*?)\s*-->", block.comment)
    expected = re.search(r"expect: (.*?)\s*-->", block.comment)
    output = folder / "output"

    def said() -> str:
        return output.read_text("utf-8", "replace")

    with (
        output.open("wb") as out,
        subprocess.Popen(
            [*command, str(script)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            if stop:
                wanted = stop.group(1)
                until(lambda: wanted in said() or process.poll() is not None, f"it does not say '{wanted}'", LONGEST_S)
                assert process.poll() is None, "it should have run until it was stopped"
                process.send_signal(signal.SIGTERM)
            process.wait(LONGEST_S)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            process.send_signal(signal.SIGABRT)  # at which Python says where it stands
            try:
                process.wait(LONGEST_S)
            finally:
                process.kill()
            pytest.fail(f"{error}; it has said:\n{said()}")
    assert process.returncode == 0, said()
    assert not expected or expected.group(1) in said(), said()


def test_there_are_examples_in_every_language() -> None:
    languages = {block.language for block in blocks_of(ROOT / "README.md")}
    assert {"python", "php", "rust"} <= languages
