"""The demo's judge must find what the demo claims to check."""

from __future__ import annotations

import pytest

from demo.ledger import Ledger


def a_good_story() -> Ledger:
    ledger = Ledger()
    ledger.pushed("a", "order 1", due=10.0)
    ledger.started("a", "python", attempt=1, token=7, at=10.001)
    ledger.ended("a", 7, "failed")
    ledger.due_again("a", 11.0)
    ledger.started("a", "python", attempt=2, token=8, at=11.002)
    ledger.ended("a", 8, "done")
    return ledger


def test_a_good_story_has_no_problems() -> None:
    assert a_good_story().problems() == []


@pytest.mark.parametrize(
    ("token", "at", "outcome", "problem"),
    [
        (9, 12.0, "done", "was done 2 times"),
        (9, 12.0, "failed", "ran again after it was done"),
        (8, 12.0, "failed", "got the token 8 after 8"),
        (9, 10.9, "failed", "early"),
    ],
)
def test_one_run_too_many_is_found(token: int, at: float, outcome: str, problem: str) -> None:
    ledger = a_good_story()
    ledger.started("a", "php", attempt=3, token=token, at=at)
    ledger.ended("a", token, outcome)
    assert any(problem in found for found in ledger.problems())


def test_lost_and_cancelled_jobs_are_found() -> None:
    ledger = a_good_story()
    ledger.pushed("b", "order 2", due=10.0)
    assert any("was lost" in found for found in ledger.problems())
    ledger.cancelled("b")
    assert ledger.problems() == []
    ledger.started("b", "python", attempt=1, token=9, at=10.1)
    assert any("although it was cancelled" in found for found in ledger.problems())
