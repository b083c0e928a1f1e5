"""The numbers that the rules of tasks store are those of the contract."""

import pytest

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.tasks.domain import task


@pytest.mark.parametrize(("name", "number"), pb.EventKind.items()[1:])
def test_a_kind_of_event_is_stored_as_its_number_in_the_contract(name: str, number: int) -> None:
    """Readers of the log get the stored number as it is."""
    assert getattr(task, name.removeprefix("EVENT_KIND_")) == number


def test_policies_and_strategies_are_stored_as_their_numbers_in_the_contract() -> None:
    """A request's number is stored as it is."""
    assert {f"ON_ORPHAN_{name}": getattr(task, f"{name}_ON_ORPHAN") for name in ("FAIL", "RERUN", "RESUME")} == dict(
        pb.OnOrphan.items()[1:]
    )
    assert {f"STRATEGY_{name}": getattr(task, name) for name in ("PARALLEL", "QUEUE", "REJECT", "INTERRUPT")} == dict(
        pb.Strategy.items()[1:]
    )
