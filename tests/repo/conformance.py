"""The page on the conformance to A2A: the operations over each binding, the items with their tests, and the losses
between the versions."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from tests.gateway.translate.losses import LOSSES
from tests.repo.cited import holders, tables
from tests.repo.items import ASKED, SECTIONS, UNTESTED
from tests.repo.tree import ROOT, Test

PAGE: Final = ROOT / "docs" / "conformance.md"
CALLS: Final = ROOT / "tests" / "cases" / "a2a-calls.json"
"""The calls of a run of the tests, as `make conformance` records them: by operation and binding, `answered` or
`refused`."""

ITEMS: Final = re.compile(r"\ba2a\s+[A-K][1-9]\d?(?:(?:,|\s+and)\s+[A-K][1-9]\d?)*\b")
"""Items in a docstring: `a2a C12`, or several as in `a2a C9, C11 and C22`."""

_NUMBER: Final = re.compile(r"[A-K][1-9]\d?")
_BINDINGS: Final = {
    "jsonrpc-1.0": "JSON-RPC 1.0",
    "rest-1.0": "REST 1.0",
    "grpc-1.0": "gRPC 1.0",
    "jsonrpc-0.3": "JSON-RPC 0.3",
    "rest-0.3": "REST 0.3",
    "grpc-0.3": "gRPC 0.3",
}
_SHOWN: Final = {"answered": "yes", "refused": "refused", "": "not in 0.3"}

_HEAD: Final = """# Conformance to A2A

This page says what of A2A 1.0 and 0.3 is served, over which binding, and which tests show it. `make conformance` runs
the tests of the gateway, which call every operation over each binding, and writes the table of operations from the
calls of the tests that passed. `make docs` writes the rest from the docstrings of the tests. Tests fail when the page
is out of date, or when an operation is answered otherwise than it says.

## Operations

A refused operation is answered with the error of the protocol for it. Webhooks come with a later release.
"""

_LOSSES_HEAD: Final = """## Losses between the versions

Both versions show the same tasks, and everything inside is 1.0. What a version cannot say is left out: this, and
nothing else. The tests convert arbitrary messages of every type there and back, and expect these losses alone.

Data that is not an object has no form in 0.3. It is sent as `{"value": ...}` with `data_part_compat` in the metadata of
its part, and comes back as it was. An object of exactly this form with this mark is taken for one that was wrapped.
"""

_ITEMS_HEAD: Final = """## Items

Each rule of the protocol has a number, by section: what the specifications require, and what their clients rely on. A
test that holds it has the number in its docstring, after "a2a", so `git grep -E 'a2a.*C12'` finds it. The list has the
number of the tests of each, with those of `make test-more` after a plus, and the two that show most of it, or the
reason why there is none. A star marks a test of `make test-more`.
"""


def items(test: Test) -> set[str]:
    """Return the items that a test cites."""
    return {number for cited in ITEMS.findall(test.docstring) for number in _NUMBER.findall(cited.partition("a2a")[2])}


@cache
def held() -> dict[str, list[Test]]:
    """Return the tests of each item."""
    return holders(items)


def calls() -> dict[str, dict[str, str]]:
    """Return for each operation how it is answered, by binding."""
    found: dict[str, dict[str, str]] = json.loads(CALLS.read_text())
    return found


def conformance() -> str:
    """Return the text of docs/conformance.md."""
    lists = tables("asked", SECTIONS, ASKED, held(), UNTESTED, heading="###")
    return "\n".join([_HEAD, *_matrix(), _LOSSES_HEAD, *_losses(), _ITEMS_HEAD, *lists]).rstrip() + "\n"


def _matrix() -> Iterator[str]:
    yield _row("operation", *_BINDINGS.values())
    yield _row(*["---"] * (len(_BINDINGS) + 1))
    for operation, by_binding in calls().items():
        yield _row(f"`{operation}`", *(_SHOWN[by_binding.get(name, "")] for name in _BINDINGS))
    yield ""


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _losses() -> Iterator[str]:
    for title, lost in LOSSES.items():
        yield f"{title}:\n"
        yield from (f"- {words}" for words in lost)
        yield ""
