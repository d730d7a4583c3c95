"""How a release is made: one version, a workflow whose steps are right, and nothing that is missing."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parent.parent
RELEASE = ROOT / "tools" / "release.sh"
VERSION = re.findall(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text("utf-8"), re.MULTILINE)[0]


def workflow() -> dict[str, Any]:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    jobs: dict[str, Any] = YAML(typ="safe").load(text)["jobs"]
    return jobs


def ends(script: Path, *arguments: str | Path, **environment: str) -> tuple[int, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    ended = subprocess.run(
        [str(part) for part in (script, *arguments)],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


def test_all_versions_are_one() -> None:
    assert ends(RELEASE, "--check") == (0, f"release: version {VERSION}\n")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    classes = ("php-binding/php/src/Version.php", "php-binding/php/src/Worker.php")
    for name in ("tools/release.sh", "Cargo.toml", "Cargo.lock", "php-binding/composer.json", *classes, "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("php-binding/composer.json", f'"ext-duly": "{VERSION}"', '"ext-duly": "9.9.9"'),
        ("php-binding/php/src/Version.php", f"CLASSES = '{VERSION}'", "CLASSES = '9.9.9'"),
        ("php-binding/php/src/Worker.php", f"CLASSES = '{VERSION}'", "CLASSES = '9.9.9'"),
        ("Cargo.lock", f'name = "duly-php"\nversion = "{VERSION}"', 'name = "duly-php"\nversion = "9.9.9"'),
        ("CHANGELOG.md", "## [Unreleased]", "## [9.9.9]"),
    ],
)
def test_another_version_is_noticed(copy: Path, file: str, old: str, new: str) -> None:
    script, text = copy / "tools" / "release.sh", (copy / file).read_text("utf-8")
    assert ends(script, "--check")[0] == 0
    assert old in text
    (copy / file).write_text(text.replace(old, new), "utf-8")
    status, said = ends(script, "--check")
    assert status == 1
    assert VERSION in said


def test_a_tag_that_is_not_the_version_is_noticed(copy: Path) -> None:
    script, log = copy / "tools" / "release.sh", copy / "CHANGELOG.md"
    assert ends(script, "--check", GITHUB_REF_TYPE="tag", GITHUB_REF_NAME="9.9.9")[0] == 1
    # A tag also wants a heading of its own.
    assert ends(script, "--check", GITHUB_REF_TYPE="tag", GITHUB_REF_NAME=VERSION)[0] == 1
    log.write_text(log.read_text("utf-8").replace("[Unreleased]", f"[{VERSION}]"), "utf-8")
    assert ends(script, "--check", GITHUB_REF_TYPE="tag", GITHUB_REF_NAME=VERSION)[0] == 0


def test_the_steps_of_the_workflow_are_shell_that_shellcheck_accepts(tmp_path: Path) -> None:
    steps = [step["run"] for job in workflow().values() for step in job["steps"] if "run" in step]
    assert len(steps) > 5
    for step in steps:
        # What GitHub puts in is a word.
        script = tmp_path / "step.sh"
        filled = re.sub(r"\$\{\{.*?\}\}", "word", step)
        script.write_text(f"#!/bin/bash\n{filled}\n", "utf-8")
        # SC2016: the shell in the container expands what stands in single quotes.
        assert ends(Path("/usr/bin/env"), "shellcheck", "--exclude=SC2016", script) == (0, "")
        for called in re.findall(r"\./(tools/\S+\.sh)", step):
            assert os.access(ROOT / called, os.X_OK), called
        for option in re.findall(r"release\.sh (--\w+)", step):
            assert f"release.sh {option}" in RELEASE.read_text("utf-8") or f"| {option} " in RELEASE.read_text("utf-8")


def test_who_sets_the_tools_up_has_a_python_that_is_new_enough() -> None:
    at_least = int(re.findall(r"python_at_least=(\d+)", (ROOT / "tools" / "setup.sh").read_text("utf-8"))[0])
    jobs = [job for job in workflow().values() if any(step.get("run") == "make setup" for step in job["steps"])]
    assert jobs
    for job in jobs:
        versions = [step["with"]["python-version"] for step in job["steps"] if "setup-python" in step.get("uses", "")]
        assert [int(version.split(".")[1]) >= at_least for version in versions] == [True]


def test_a_release_is_what_the_jobs_make_and_nothing_less(tmp_path: Path) -> None:
    jobs = workflow()
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}
    matrix = jobs["php"]["strategy"]["matrix"]
    words = {"cli": "", "zts": "-zts", "bookworm": "glibc", "alpine": "musl"}
    arch = {"ubuntu-22.04": "x86_64", "ubuntu-22.04-arm": "arm64"}
    cells = itertools.product(matrix["php"], matrix["threads"], matrix["runner"], matrix["system"])
    archives = {
        f"{extension}-{VERSION}_php{php}-{arch[runner]}-linux-{words[system]}{words[threads]}.zip"
        for php, threads, runner, system in cells
        for extension in ("php_duly", "php_duly_console")
    }
    wheels = {
        f"duly-{VERSION}-cp310-abi3-manylinux2014_{cpu}.manylinux_2_17_{cpu}.whl" for cpu in ("x86_64", "aarch64")
    }
    bills = {f"duly-{VERSION}-{crate}.cdx.json" for crate in ("php-binding", "php-binding-console", "py-binding")}
    sources = {f"{extension}-{VERSION}-src.tgz" for extension in ("php_duly", "php_duly_console")}
    sources |= {f"duly-{VERSION}-php-classes.zip", f"duly-{VERSION}.tar.gz"}
    files = archives | wheels | bills | sources
    for file in files:
        (tmp_path / file).write_text(file, "utf-8")
    status, said = ends(RELEASE, "--complete", tmp_path)
    assert (status, f"{len(files)} files, none is missing" in said) == (0, True), said
    sums = (tmp_path / "SHA256SUMS").read_text("utf-8")
    assert {line.split("  ")[1] for line in sums.splitlines()} == files
    for file in (min(archives), min(wheels), min(bills), min(sources)):
        (tmp_path / file).unlink()
        status, said = ends(RELEASE, "--complete", tmp_path)
        assert (status, f"{file} is missing" in said) == (1, True), said
        (tmp_path / file).write_text(file, "utf-8")
