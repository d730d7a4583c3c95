"""The lock file of the fuzz targets, which only `make soak` builds, follows that of all else."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
OURS, THEIRS = ROOT / "Cargo.lock", ROOT / "core/fuzz/Cargo.lock"
HINT = "run `cargo metadata` in core/fuzz, and look at what it changes in its Cargo.lock"


def versions(lock: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r'^name = "(.+)"\nversion = "(.+)"$', lock.read_text(), re.MULTILINE):
        found.setdefault(name, set()).add(version)
    return found


def needs(lock: Path) -> set[str]:
    """Give what duly itself depends on, and in the one of all else also for its tests."""
    block = re.search(r'^name = "duly"\n.*?^\]$', lock.read_text(), re.MULTILINE | re.DOTALL)
    assert block is not None
    return set(re.findall(r'^ "([^ "]+)', block[0], re.MULTILINE))


def test_the_fuzz_targets_are_locked_to_the_versions_of_all_else() -> None:
    ours = versions(OURS)
    other = {name for name, locked in versions(THEIRS).items() if name in ours and not locked <= ours[name]}
    assert other == set(), HINT


def test_the_fuzz_targets_have_what_duly_depends_on() -> None:
    manifest = (ROOT / "core/Cargo.toml").read_text()
    section = re.search(r"^\[dependencies\]\n(.*?)^\[", manifest, re.MULTILINE | re.DOTALL)
    assert section is not None
    optional = re.findall(r"^([\w-]+) = .*optional = true", section[1], re.MULTILINE)
    named = re.findall(r"^([\w-]+)(?:\.workspace)? = ", section[1], re.MULTILINE)
    assert "redis" in named
    assert set(named) - set(optional) - needs(THEIRS) == set(), HINT
    assert needs(THEIRS) <= needs(OURS), HINT
