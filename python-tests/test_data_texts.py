"""Any text of JSON comes back as Python's own `json` reads it, to the byte and to the bit.

`DULY_DATA_CASES` says how many texts, `DULY_DATA_SEED` takes other ones than the usual.
"""

from __future__ import annotations

import json
import os
import random
from typing import Any

import duly

CASES = int(os.environ.get("DULY_DATA_CASES", "2000"))
SEED = int(os.environ.get("DULY_DATA_SEED", "24301"))
DEEPEST = 512
SPACES = ["", "", "", " ", "\n", "\t\r\n "]
KEYS = ['""', '"a"', r'"\u0061"', '"a"', '"b"', '"__proto__"', r'"\u0000"', r'"\ud800"', '"é"', '"1"']
ESCAPED = [r"\ud83d\ude00", r"\ud800", r"\udfff", r"\ude00\ud83d", r"\u0000", r"\u2028", r"\"", r"\\", r"\/", r"\b\f\n"]
STRINGS = [*ESCAPED, "a", "é", "订", "😀", "\u2028", "\x7f", "\ufeff", "0", " "]
NUMBERS = ["-0", "0", "-0.0", "0e0", "1E2", "1e+2", "5e-324", "2e-324", "1.7976931348623157e308", "1e400", "-1e400"]


class Texts:
    """Makes texts at random; values are spelled in every way that JSON has for them."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def text(self) -> str:
        if self._chance.random() > 0.02:
            return self._value(0)
        levels = self._chance.choice([DEEPEST, self._chance.randrange(DEEPEST)])
        ends = [self._chance.choice(["[]", "{}"]) for _ in range(levels)]
        heads = ("[" if end == "[]" else f"{{{self._chance.choice(KEYS)}:" for end in ends)
        return "".join(heads) + self._chance.choice(["1", '""', "null"]) + "".join(end[1] for end in reversed(ends))

    def _value(self, depth: int) -> str:
        match self._chance.randrange(5 if depth < 5 else 3):
            case 0:
                made = self._number()
            case 1:
                made = self._string()
            case 2:
                made = self._chance.choice(["null", "true", "false"])
            case 3:
                made = self._list(depth + 1)
            case _:
                made = self._object(depth + 1)
        return self._space() + made + self._space()

    def _space(self) -> str:
        return self._chance.choice(SPACES)

    def _number(self) -> str:
        match self._chance.randrange(5):
            case 0:
                return self._chance.choice(NUMBERS)
            case 1:
                return str(
                    self._chance.choice([1, -1])
                    * (2 ** self._chance.choice([53, 63, 64]) + self._chance.randint(-2, 2))
                )
            case 2:
                return str(self._chance.choice([1, -1]) * self._chance.getrandbits(self._chance.randint(1, 1300)))
            case 3:
                return repr(self._chance.uniform(-1, 1) * 10.0 ** self._chance.randrange(-320, 308))
            case _:
                digits = "".join(self._chance.choices("0123456789", k=self._chance.randint(1, 40)))
                return f"{self._chance.randrange(10**6)}.{digits}{self._chance.choice(['', 'e5', 'E-300', 'e+300'])}"

    def _string(self) -> str:
        parts = self._chance.choices(STRINGS, k=self._chance.randrange(6))
        return '"' + "".join(parts) + '"'

    def _list(self, depth: int) -> str:
        return "[" + (",".join(self._value(depth) for _ in range(self._chance.randrange(4))) or self._space()) + "]"

    def _object(self, depth: int) -> str:
        keys = [self._chance.choice([*KEYS, self._string()]) for _ in range(self._chance.randrange(4))]
        return "{" + (",".join(f"{self._space()}{key}:{self._value(depth)}" for key in keys) or self._space()) + "}"


def there_and_back(queue: duly.Queue, jobs: list[duly.NewJob]) -> list[duly.Job]:
    queue.push_many(jobs)
    back: list[duly.Job] = []
    while len(back) < len(jobs):
        taken = queue.reserve_many(1000)
        assert taken
        queue.ack_many(taken)
        back += taken
    return back


def test_any_text_comes_back_as_pythons_own_json_reads_it(queue: duly.Queue) -> None:
    texts = Texts(random.Random(SEED))
    pushed_as_values = 0
    for first in range(0, CASES, 1000):
        batch = [texts.text() for _ in range(min(1000, CASES - first))]
        for text, job in zip(batch, there_and_back(queue, [duly.NewJob(raw=t.encode()) for t in batch]), strict=True):
            assert job.raw == text.encode(), (SEED, text)
            # Types, signs of zero, order of keys and halves of surrogates are seen in it, too.
            assert repr(job.data) == repr(json.loads(text)), (SEED, text)
        values = [value for text in batch if is_pushable(value := json.loads(text))]
        pushed_as_values += len(values)
        for value, job in zip(values, there_and_back(queue, [duly.NewJob(v) for v in values]), strict=True):
            assert repr(job.data) == repr(value) == repr(json.loads(job.raw)), (SEED, value)
    assert pushed_as_values > CASES / 4


def is_pushable(value: Any) -> bool:
    """Say whether no number in it is infinite or beyond 64 bits, and no text has half of a surrogate pair."""
    if isinstance(value, dict):
        return all(is_pushable(key) and is_pushable(member) for key, member in value.items())
    if isinstance(value, list):
        return all(map(is_pushable, value))
    if isinstance(value, str):
        return not any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, float):
        return abs(value) != float("inf")
    return not isinstance(value, int) or -(2**63) <= value < 2**64
