"""The pages about defects name the tests that keep them out: each of these tests must be there."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Set
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("findings-2026-11.md", "reference-defects.md")
# In backticks. A name of four words or more is that of a test in Rust or of a scenario.
NAMED = re.compile(r"`(?:(?P<php_class>\w+Test)::)?(?P<test>test_\w+|test[A-Z]\w+|[a-z0-9]+(?:_[a-z0-9]+){3,})`")
DECLARED = {
    "core": (".rs", r"\bfn (\w+)"),
    "python-tests": (".py", r"\bdef (test_\w+)"),
    "php-tests": (".php", r"\bfunction (test\w+)"),
}


def all_tests() -> dict[str, set[str]]:
    """By the name of a test: the files in which it is."""
    tests: dict[str, set[str]] = defaultdict(set)
    for folder, (ending, declaration) in DECLARED.items():
        for file in (ROOT / folder).rglob(f"*{ending}"):
            for name in re.findall(declaration, file.read_text("utf-8")):
                tests[name].add(file.stem)
    for file in (ROOT / "conformance" / "scenarios").glob("*.json"):
        for scenario in json.loads(file.read_text("utf-8")):
            tests[scenario["name"]].add(file.stem)
    return tests


def named_and_not_there(page: str, tests: Mapping[str, Set[str]]) -> list[str]:
    return [
        name[0]
        for name in NAMED.finditer(page)
        if name["test"] not in tests or not {name["php_class"]} <= {None, *tests[name["test"]]}
    ]


@pytest.mark.parametrize("page", PAGES)
def test_the_tests_that_a_page_names_are_there(page: str) -> None:
    text = (ROOT / "docs" / page).read_text("utf-8")
    assert len(NAMED.findall(text)) > 20
    assert named_and_not_there(text, all_tests()) == []


def test_a_test_that_is_not_there_is_noticed() -> None:
    tests = {"a_job_runs_once_only": {"run"}, "test_it_works": {"test_it"}, "testItWorks": {"ItTest"}}
    there = "`a_job_runs_once_only`, `test_it_works`, `testItWorks`, `ItTest::testItWorks`; `max_retries`, `test_it.py`"
    assert named_and_not_there(there, tests) == []
    gone = ["`a_job_runs_twice_or_more`", "`test_it_fails`", "`OtherTest::testItWorks`"]
    assert named_and_not_there(", ".join(gone), tests) == gone
