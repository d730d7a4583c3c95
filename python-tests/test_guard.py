from __future__ import annotations

import copy
from typing import Any

import pytest

from bench.guard import differences

TABLE: dict[str, dict[str, Any]] = {
    "push": {
        "commands": {"evalsha": 1, "hset": 2},
        "keys": 7,
        "bytes_in": 560.0,
        "allocations": 33,
        "client_instructions": 35_000,
    }
}


def changed(what: str, value: object) -> dict[str, dict[str, Any]]:
    costs = copy.deepcopy(TABLE)
    costs["push"][what] = value
    return costs


def test_a_run_like_the_table_has_no_differences() -> None:
    assert differences(TABLE, TABLE, alike=True) == []
    assert differences(TABLE, changed("client_instructions", 35_900), alike=True) == []
    assert differences(TABLE, changed("bytes_in", 560.4), alike=True) == []


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("commands", {"evalsha": 1, "hset": 3}),
        ("commands", {"evalsha": 1, "hset": 2, "get": 0.01}),
        ("keys", 8),
        ("bytes_in", 570.0),
        ("allocations", 34),
        ("allocations", 32),
        ("client_instructions", 36_100),
        ("client_instructions", 33_900),
        ("new_figure", 1),
    ],
)
def test_whatever_is_not_as_in_the_table_is_a_difference(what: str, value: object) -> None:
    assert len(differences(TABLE, changed(what, value), alike=True)) == 1


def test_a_phase_of_one_side_is_a_difference() -> None:
    assert len(differences(TABLE, {}, alike=True)) == 1
    assert len(differences({}, TABLE, alike=True)) == 1


def test_instructions_are_compared_only_where_compiler_and_server_are_those_of_the_table() -> None:
    assert differences(TABLE, changed("client_instructions", 70_000), alike=False) == []
    assert len(differences(TABLE, changed("keys", 8), alike=False)) == 1
