"""The agents that each process runs, and the agents that no process runs. No I/O."""

import json
from collections.abc import Collection, Iterable
from typing import Final

# Characters. The list is rewritten with every renewal of its process.
_MOST: Final = 32 * 1024


def packed(agents: Collection[str] | None) -> str | None:
    """Return the stored value of the agents; None (not known) also if there are too many."""
    if agents is None or sum(map(len, agents)) > _MOST:
        return None
    return json.dumps(sorted(set(agents)), ensure_ascii=False, separators=(",", ":"))


def unserved(agents: Iterable[str], lists: Iterable[str | None]) -> frozenset[str]:
    """Return the agents that are in no list. If a list is not known, return none, since that process may run any
    agent."""
    missing = set(agents)
    for each in lists:
        if each is None:
            return frozenset()
        missing.difference_update(json.loads(each))
    return frozenset(missing)
