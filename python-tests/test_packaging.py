"""What the package says of itself: help, stubs, metadata, and its page on PyPI."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import duly
import duly.aio
import pytest

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "py-binding" / "python" / "duly" / "_core.pyi"
HOME = "https://github.com/duly-queue/duly/blob/main/"


def of_stub() -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    for node in ast.parse(STUB.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef):
            found.append((node.name, "", ast.get_docstring(node) or ""))
            for function in node.body:
                if isinstance(function, ast.FunctionDef) and not function.decorator_list:
                    found.append((node.name, function.name, ast.get_docstring(function) or ""))
    return found


def test_help_says_what_the_stub_says() -> None:
    core = importlib.import_module("duly._core")
    differing = []
    for owner, name, text in of_stub():
        real: Any = getattr(core, owner, None)
        if name and real is not None:
            real = inspect.getattr_static(real, name)
        if name == "__new__":
            continue  # what Python shows of it is the class
        if text and real is not None and inspect.getdoc(real) != text:
            differing.append(f"{owner}.{name}")
    assert differing == [], "edit the stub, and run tools/docstrings.py"
    subprocess.run([sys.executable, str(ROOT / "tools" / "docstrings.py"), "--check"], check=True)


def test_the_stub_of_the_asyncio_classes_follows_that_of_the_others() -> None:
    subprocess.run([sys.executable, str(ROOT / "tools" / "aio_stub.py"), "--check"], check=True)


@pytest.mark.parametrize("queue", [duly.Queue, duly.aio.Queue])
def test_help_explains_every_option_of_a_push(queue: Any) -> None:
    said = inspect.getdoc(queue.push) or ""
    for option in inspect.signature(queue.push).parameters:
        if option == "self":
            continue
        explained = re.search(rf"^    {option}: .*(?:\n        .*)*", said, re.MULTILINE)
        assert explained is not None, option
        assert "Default: " in explained[0], option
        if option in ("delay", "timeout", "result_ttl"):
            assert "seconds or as a timedelta" in re.sub(r"\s+", " ", explained[0])
    assert "0 goes first" in said


def test_the_readme_has_links_that_work_on_pypi() -> None:
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text("utf-8"))
    assert links
    for link in links:
        assert link.startswith(("https://", "#")), f"{link} is relative: begin it with {HOME}"
        if link.startswith(HOME):
            assert (ROOT / link.removeprefix(HOME).partition("#")[0]).exists(), link


def test_the_metadata_names_versions_and_documentation() -> None:
    project = importlib.import_module("tomllib").loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lowest = int(project["requires-python"].removeprefix(">=3."))
    said = [one.removeprefix("Programming Language :: Python :: 3.") for one in project["classifiers"]]
    assert [one for one in said if one.isdecimal()] == [str(minor) for minor in range(lowest, 15)]
    assert project["urls"]["Documentation"].startswith("https://")
