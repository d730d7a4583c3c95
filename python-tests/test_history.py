"""The checker of histories sees what is wrong: for each rule a history that breaks it, and others that do not."""

from __future__ import annotations

import pytest
from history import Operation, What, check
from record_history import SABOTAGES, record
from support import Server

PUSH = Operation("push", "a", 0.0, 1.0)
RUN = Operation("run", "a", 2.0, 3.0, token=1)
ACK = Operation("ack", "a", 4.0, 5.0, token=1, value=7)
LATER_RUN = Operation("run", "a", 6.0, 7.0, token=2)


@pytest.mark.parametrize(
    "history",
    [
        [PUSH, RUN, ACK],
        [PUSH, RUN, Operation("fail", "a", 4.0, 5.0, token=1), LATER_RUN, Operation("ack", "a", 8.0, 9.0, token=2)],
        [PUSH, Operation("cancel", "a", 2.0, 3.0)],
        [PUSH, RUN, Operation("ack", "a", 4.0, 8.0, ok=None, token=1), LATER_RUN],
        [Operation("push", "a", 0.0, 1.0, delay=2.0), RUN, ACK],
        [Operation("push", "a", 0.0, 1.0, ok=None)],
        [PUSH, Operation("reschedule", "a", 1.0, 1.5, delay=1.5), RUN, ACK],
        [PUSH, RUN, ACK, Operation("result", "a", 4.5, 5.5, value=7)],
        [PUSH, RUN, ACK, Operation("cancel", "a", 4.5, 6.0, ok=False)],
        # It may have run after the move that came second; a move without an answer may come whenever it likes.
        [PUSH, Operation("reschedule", "a", 1.1, 1.5, delay=9), Operation("reschedule", "a", 1.4, 1.6), RUN, ACK],
        [
            PUSH,
            Operation("reschedule", "a", 1.1, 1.2, ok=None),
            Operation("reschedule", "a", 1.4, 1.6, delay=9),
            RUN,
            ACK,
        ],
        [
            PUSH,
            Operation("run", "a", 1, 2, token=1, lease=9),
            Operation("fail", "a", 2, 3, token=1),
            LATER_RUN,
            Operation("ack", "a", 8.0, 9.0, token=2),
        ],
        [Operation("push", "a", 0, 1, key="k"), RUN, ACK, Operation("push", "b", 4.5, 5, key="k", ok=None)],
    ],
)
def test_what_can_be_is_not_reported(history: list[Operation]) -> None:
    assert check(history) == []


@pytest.mark.parametrize(
    ("wrong", "history"),
    [
        ("a: was lost", [PUSH]),
        ("a: was lost", [PUSH, RUN]),
        ("a: ran and was never pushed", [RUN]),
        ("a: ran after its ack", [PUSH, RUN, ACK, LATER_RUN]),
        ("a: ran after its cancel", [PUSH, Operation("cancel", "a", 1.0, 1.5), RUN]),
        ("a: ran after its replacement", [PUSH, Operation("push", "b", 1.0, 1.5, replaced="a"), RUN,
                                          Operation("cancel", "b", 8.0, 9.0)]),
        ("a: was acked 2 times", [PUSH, RUN, ACK, ACK]),
        ("a: was acked under a token that no run had", [PUSH, ACK]),
        ("a: was acked by the holder of a lease that was over",
         [PUSH, RUN, LATER_RUN, Operation("ack", "a", 8.0, 9.0, token=1)]),
        ("a: a later lease had no larger token", [PUSH, RUN, Operation("run", "a", 3.5, 3.6, token=1), ACK]),
        ("a: ran before it was due", [Operation("push", "a", 0.0, 1.0, delay=3.5), RUN, ACK]),
        ("a: ran before the time that it was moved to",
         [PUSH, Operation("reschedule", "a", 1.1, 1.5, delay=5.0), RUN, ACK]),
        # A move that came behind its run, or was moved again, is no excuse.
        ("a: ran before it was due",
         [Operation("push", "a", 0.0, 1.0, delay=3.5), RUN, ACK, Operation("reschedule", "a", 6.0, 7.0, ok=False)]),
        ("a: ran before it was due",
         [Operation("push", "a", 0.0, 1.0, delay=3.5), RUN, Operation("reschedule", "a", 6.0, 7.0), ACK]),
        ("a: ran before the time that it was moved to",
         [PUSH, Operation("reschedule", "a", 1.1, 1.2), Operation("reschedule", "a", 1.3, 1.5, delay=5.0), RUN, ACK]),
        ("a: ran again while another one had its lease",
         [PUSH, Operation("run", "a", 1, 2, token=1, lease=9), LATER_RUN, Operation("ack", "a", 8.0, 9.0, token=2)]),
        ("a: was not found by a cancel, and was there",
         [PUSH, Operation("cancel", "a", 1.5, 1.6, ok=False), RUN, ACK]),
        ("a: has a result that no ack gave", [PUSH, RUN, ACK, Operation("result", "a", 5.0, 6.0, value=8)]),
        ("key k: a second job got it",
         [Operation("push", "a", 0.0, 1.0, key="k"), Operation("push", "b", 1.5, 1.6, key="k"), RUN, ACK,
          Operation("cancel", "b", 8.0, 9.0)]),
        ("b: was given up for a, which had ended", [PUSH, RUN, ACK, Operation("push", "b", 6.0, 7.0, kept="a")]),
    ],
)  # fmt: skip
def test_what_cannot_be_is_reported(wrong: str, history: list[Operation]) -> None:
    assert wrong in check(history)


def test_a_short_history_of_a_real_queue_is_right() -> None:
    server = Server()
    try:
        kinds: set[What] = {"push", "run", "ack", "fail", "cancel", "reschedule", "result"}
        history = record(server, seed=20261122, seconds=3, kinds=kinds)
        assert check(history) == []
        assert {operation.what for operation in history} >= kinds
    finally:
        server.close()


@pytest.mark.parametrize("kind", SABOTAGES)
def test_a_server_that_starts_jobs_early_or_twice_or_loses_them_is_seen(kind: str) -> None:
    server = Server()
    try:
        # A round with a long backlog may run nothing early.
        rounds = (check(record(server, seed=seed, seconds=2, sabotage=kind)) for seed in range(10))
        assert any(SABOTAGES[kind][0] in wrong for found in rounds for wrong in found)
    finally:
        server.close()
