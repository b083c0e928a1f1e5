"""The numbers that the rules of tasks store are those of the contract."""

import pytest

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.tasks.domain import kinds, task


@pytest.mark.parametrize(("name", "number"), pb.EventKind.items()[1:])
def test_a_kind_of_event_is_stored_as_its_number_in_the_contract(name: str, number: int) -> None:
    """Readers of the log get the stored number as it is."""
    assert getattr(kinds, name.removeprefix("EVENT_KIND_")) == number


def test_the_table_of_kinds_has_each_kind_of_the_contract_once() -> None:
    assert sorted(kinds.KINDS) == sorted(number for _, number in pb.EventKind.items()[1:])


def test_the_content_of_a_kind_stands_in_fields_of_the_stream_response() -> None:
    fields = set(a2a.StreamResponse.DESCRIPTOR.fields_by_name)
    assert all(set(kind.payloads) <= fields for kind in kinds.KINDS.values())


def test_the_data_of_a_kind_stands_in_a_field_of_that_name_of_the_change_and_of_the_event() -> None:
    fields = [set(message.DESCRIPTOR.fields_by_name) for message in (pb.Change, pb.Event)]
    assert kinds.DATA and all(name in each for name in kinds.DATA for each in fields)
    assert all(kind.most_bytes for kind in kinds.DATA.values())


def test_policies_and_strategies_are_stored_as_their_numbers_in_the_contract() -> None:
    """A request's number is stored as it is."""
    assert {f"ON_ORPHAN_{name}": getattr(task, f"{name}_ON_ORPHAN") for name in ("FAIL", "RERUN", "RESUME")} == dict(
        pb.OnOrphan.items()[1:]
    )
    assert {f"STRATEGY_{name}": getattr(task, name) for name in ("PARALLEL", "QUEUE", "REJECT", "INTERRUPT")} == dict(
        pb.Strategy.items()[1:]
    )
