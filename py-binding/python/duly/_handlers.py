"""Which handler runs a job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from duly._core import Job

Handler: TypeAlias = Callable[[Job], Any]
ByName: TypeAlias = dict[str | None, Handler]

CATCH_ALL = "*"
"""Names the handler of the jobs whose name has none."""


def of_kind(handlers: Mapping[str | None, Handler], is_it: Callable[[Handler], bool]) -> ByName:
    """Give the handlers of a kind by name; a catch-all of that kind answers to names that have no handler at all."""
    found = {name: handler for name, handler in handlers.items() if name != CATCH_ALL and is_it(handler)}
    catch_all = handlers.get(CATCH_ALL)
    if catch_all is None or not is_it(catch_all):
        return found
    return _WithCatchAll(found, catch_all, handlers.keys() - found.keys())


class _WithCatchAll(ByName):
    def __init__(self, named: ByName, catch_all: Handler, others: Iterable[str | None]) -> None:
        super().__init__(named)
        self._catch_all = catch_all
        self._others = frozenset(others) - {CATCH_ALL}

    def get(self, name: str | None, default: Any = None) -> Any:
        """Give the handler of this name, or the catch-all if no handler of another kind has it."""
        found = super().get(name)
        if found is not None:
            return found
        return default if name in self._others else self._catch_all

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name not in self._others

    def __bool__(self) -> bool:
        return True
