"""The pages about defects name the tests that keep them out: each of these tests must be there."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FINDINGS = "findings-2026-11.md"
PAGES = (FINDINGS, "reference-defects.md")
# In backticks. Words with underscores between them are the name of a test in Rust or of a scenario, or else
# something of the code: a name that is neither is that of a test that is gone.
NAMED = re.compile(
    r"`(?:"
    r"(?P<php_class>\w+Test)(?:::(?P<php_test>test[A-Z]\w+))?"
    r"|(?P<alone>test[A-Z]\w+)"
    r"|(?P<python>test_\w+)"
    r"|(?P<words>[a-z0-9]+(?:_[a-z0-9]+)+)"
    r"|(?P<file>[\w-]+\.(?:rs|py|json|sh|md|toml))"
    r"|(?P<program>engine|worker|faults|conformance) (?P<module>[a-z_]+)"
    r")`"
)
OF_A_TEST_IN_RUST = re.compile(
    r"#\[(?:tokio::)?test(?:\([^)]*\))?\]\s*(?:(?:#\[[^\]]*\]|//[^\n]*)\s*)*(?:async )?fn (\w+)"
)
DECLARED = {
    "core": (".rs", OF_A_TEST_IN_RUST),
    "console": (".rs", OF_A_TEST_IN_RUST),
    "python-tests": (".py", re.compile(r"\bdef (test_\w+)")),
    "php-tests": (".php", re.compile(r"\bfunction (test\w+)")),
}
# Where other words in backticks come from.
CODE = (
    "core/src/**/*.rs",
    "core/lua/**/*.lua",
    "py-binding/python/**/*.py*",
    "py-binding/src/**/*.rs",
    "php-binding/**/src/**/*.rs",
    "php-binding/php/**/*.php",
)
# A row of a table: its number, such as X10a, and its last cell.
ROW = re.compile(r"^\| ([A-Z])(\d+)([a-z]?) \|(?:.*)\| (.*) \|$", re.MULTILINE)
# A finding that another one names, such as E22 or F1b: any number but that at the beginning of a row.
REFERENCE = re.compile(r"(?<![\w`])(?<!^\| )([A-Z]\d+[a-z]?)(?![\w`])", re.MULTILINE)
# Documented limits, checks of `make soak` and `make check`, a doctest. What is open has none, and needs none.
WITHOUT_A_TEST = {"F1f", "X10f", "E21", "L24", "D1", "D3", "D4", "T8"}


class Names:
    """What can be named."""

    def __init__(self, tests: Mapping[str, Set[str]], files: Set[str], words: Set[str]) -> None:
        """Take the files of each test by its name, without endings; names of files; and words of the code."""
        self.tests, self.files, self.words = tests, files, words

    def has(self, name: re.Match[str]) -> bool:
        """Tell whether what is named is there."""
        named = {kind: text for kind, text in name.groupdict().items() if text is not None}
        match named:
            case {"php_class": file, "php_test": test}:
                return file in self.tests.get(test, ())
            case {"php_class": file}:
                return f"{file}.php" in self.files
            case {"alone": test} | {"python": test}:
                return test in self.tests
            case {"words": test}:
                return test in self.tests or test in self.words
            case {"file": file}:
                return file in self.files
            case {"program": program, "module": module}:
                return f"{program}/{module}.rs" in self.files
        return False

    def gone(self, page: str) -> list[str]:
        """List what the page names and is not there."""
        return [name[0] for name in NAMED.finditer(page) if not self.has(name)]

    def tests_of(self, text: str) -> list[str]:
        """List the tests that are named, without those of which only the file is."""
        kinds = ("php_test", "alone", "python", "words")
        named = (name[kind] for name in NAMED.finditer(text) for kind in kinds if name[kind])
        return [name for name in named if name in self.tests]


def all_names() -> Names:
    tests: dict[str, set[str]] = defaultdict(set)
    for folder, (ending, declaration) in DECLARED.items():
        for file in (ROOT / folder).rglob(f"*{ending}"):
            for name in declaration.findall(file.read_text("utf-8")):
                tests[name].add(file.stem)
    for file in (ROOT / "conformance" / "scenarios").glob("*.json"):
        for scenario in json.loads(file.read_text("utf-8")):
            tests[scenario["name"]].add(file.stem)
    files = set[str]()
    for folder in (*DECLARED, "conformance", "docs", "tools"):
        for file in (ROOT / folder).rglob("*.*"):
            files |= {file.name, f"{file.parent.name}/{file.name}"}
    files |= {file.name for file in ROOT.glob("*.*")}
    words = set[str]()
    for pattern in CODE:
        for file in ROOT.glob(pattern):
            if file.suffix != ".so":
                words.update(re.findall(r"[a-z0-9]+(?:_[a-z0-9]+)+", file.read_text("utf-8")))
    return Names(tests, files, words - tests.keys())


def numbers(page: str) -> Iterator[tuple[str, int, str]]:
    for row in ROW.finditer(page):
        yield row[1], int(row[2]), row[3]


def without_a_row(page: str) -> list[str]:
    """List the findings that a text refers to and that have no row."""
    rows = {f"{letter}{number}{part}" for letter, number, part in numbers(page)}
    letters = {row[0] for row in rows}
    named = (reference[1] for reference in REFERENCE.finditer(page))
    return [name for name in named if name[0] in letters and name not in rows]


@pytest.mark.parametrize("page", PAGES)
def test_the_tests_that_a_page_names_are_there(page: str) -> None:
    text = (ROOT / "docs" / page).read_text("utf-8")
    assert len(NAMED.findall(text)) > 20
    assert all_names().gone(text) == []


def test_each_finding_has_a_number_of_its_own_and_names_a_test() -> None:
    page, names = (ROOT / "docs" / FINDINGS).read_text("utf-8"), all_names()
    found = list(numbers(page))
    assert len(found) > 100
    for letter in {number[0] for number in found}:
        own = [number for number in found if number[0] == letter]
        assert own == sorted(set(own)), f"the numbers of {letter} are twice there or not in order"
    without = {
        f"{row[1]}{row[2]}{row[3]}"
        for row in ROW.finditer(page)
        if not names.tests_of(row[4]) and not row[4].startswith("Open")
    }
    assert without == WITHOUT_A_TEST


def test_a_finding_that_another_one_names_has_a_row() -> None:
    page = (ROOT / "docs" / FINDINGS).read_text("utf-8")
    assert len(REFERENCE.findall(page)) > 5
    assert without_a_row(page) == []
    rows = "| X6 | See E80. | And X6, `E2`, I10. |\n| E80 | As in X7, or E81 (E8). | Open |\n"
    assert without_a_row(rows) == ["X7", "E81", "E8"]


def test_a_test_that_is_not_there_is_noticed() -> None:
    tests = {"a_job_runs_once_only": {"run"}, "test_it_works": {"test_it"}, "testItWorks": {"ItTest"}}
    names = Names(tests, {"ItTest.php", "test_it.py", "faults/slow_line.rs"}, {"max_retries"})
    there = (
        "`a_job_runs_once_only`, `test_it_works`, `testItWorks`, `ItTest::testItWorks`; `max_retries`, `ItTest`, "
        "`test_it.py`, `faults slow_line`"
    )
    assert names.gone(there) == []
    assert names.tests_of(there) == ["a_job_runs_once_only", "test_it_works", "testItWorks", "testItWorks"]
    gone = [
        "`a_job_runs_twice_or_more`",
        "`jobs_run_twice`",
        "`test_it_fails`",
        "`OtherTest::testItWorks`",
        "`OtherTest`",
        "`test_other.py`",
        "`other.json`",
        "`faults fast_line`",
    ]
    assert names.gone(", ".join(gone)) == gone


def test_only_what_is_marked_as_a_test_is_one_in_rust() -> None:
    source = """
        fn helps_some_other_test() {}
        #[test]
        fn it_is_marked() {}
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        // Why it is slow.
        #[should_panic(expected = "no")]
        async fn it_is_marked_too() {}
        async fn it_is_not() {}
    """
    assert OF_A_TEST_IN_RUST.findall(source) == ["it_is_marked", "it_is_marked_too"]


def test_the_skins_have_the_same_files_but_for_those_that_the_page_lists() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    sources = {"py-binding": ["src"], "php-binding": ["src", "console/src", "shared/src"]}
    files = {
        skin: {
            str(file.relative_to(ROOT / skin / folder).with_suffix(""))
            for folder in folders
            for file in (ROOT / skin / folder).rglob("*.rs")
        }
        for skin, folders in sources.items()
    }
    both = files["py-binding"] & files["php-binding"]
    for skin, all_files in files.items():
        row = re.search(rf"\| `{skin}` \|.* its own: (.*) \|", page)
        assert row, skin
        listed = re.findall(r"`([^`]+)`", row[1])
        own = {file for file in all_files if {file, file.split("/")[0], file.split("/")[-1]} & set(listed)}
        assert all_files - both == own, skin
