"""The agents that each process runs, and those that none of them does. Pure."""

import json
from collections.abc import Collection, Iterable
from typing import Final

# Characters. The list is rewritten with every renewal of its process.
_MOST: Final = 32 * 1024


def packed(agents: Collection[str] | None) -> str | None:
    """Return the agents as they are stored; None, not known, also if they are too many."""
    if agents is None or sum(map(len, agents)) > _MOST:
        return None
    return json.dumps(sorted(set(agents)), ensure_ascii=False, separators=(",", ":"))


def unserved(agents: Iterable[str], lists: Iterable[str | None]) -> frozenset[str]:
    """Return those of the agents that are in no list. None of them where a list is not known: it may have them all."""
    missing = set(agents)
    for each in lists:
        if each is None:
            return frozenset()
        missing.difference_update(json.loads(each))
    return frozenset(missing)
