"""The steps of a send, so that no change doubles them unseen."""

import sys

import pytest
from bench import sends
from bench.bindings import Binding, jsonrpc, over_grpc, rest

MOST_CALLS = 2_700
"""Python calls of one blocking send on one connection. A change that needs more raises this number in its own line of
the history: the message of its commit says the count before and after (`python -m bench --only sends`) and the gain."""

# Other versions of Python call comprehensions and coroutines in other ways.
COUNTED_ON = (3, 11)


@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.version_info[:2] != COUNTED_ON, reason="the bound is that of one version of Python")
@pytest.mark.parametrize(
    "binding", [jsonrpc, *(pytest.param(each, marks=pytest.mark.more) for each in (rest, over_grpc))]
)
async def test_a_send_makes_no_more_python_calls_than_the_bound(binding: Binding) -> None:
    """Counted, not timed: a slow machine makes as many."""
    cost = await sends.measure(1, 40, binding)
    assert cost.statements["COMMIT"] < 6
    assert sum(cost.calls.values()) < MOST_CALLS, sends.report(1, cost, binding)
