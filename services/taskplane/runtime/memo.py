"""Remembering what was worked out before, within bounds."""

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(dict[K, V]):
    """`memo[key]` is `make(key)`, worked out once. What `make` raises is not remembered.

    It holds `limit` keys at most and then begins anew, so a flood of keys costs time and no memory. A hit costs one
    look-up in a dict, a fraction of what `functools.lru_cache` takes.
    """

    def __init__(self, make: Callable[[K], V], limit: int = 1_024) -> None:
        """`make` must give the same for equal keys, always."""
        super().__init__()
        self._make = make
        self._limit = limit

    def __missing__(self, key: K) -> V:
        made = self._make(key)
        if len(self) >= self._limit:
            self.clear()
        self[key] = made
        return made
