"""The key of a turn."""

from typing import Any

import pytest
from tests.executor.plane import ANN, BOB, said

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.executor.derived_ids import derived
from taskplane.executor.turns.invocations import identify, identify_rewind
from taskplane.runtime.errors import Invalid


def request(words: str = "go", *, key: str = "k", metadata: Any = None, **fields: Any) -> pb.SubmitRequest:
    send = a2a.SendMessageRequest(message=said(words, message_id="m"), metadata=metadata, **fields)
    return pb.SubmitRequest(request=send, idempotency_key=key)


def test_the_order_of_metadata_does_not_make_another_request() -> None:
    """C10: the hash is that of canonical JSON."""
    one = identify(request(metadata={"a": {"x": 1, "y": 2}, "b": 2}), ANN, "demo")
    two = identify(request(metadata={"b": 2, "a": {"y": 2, "x": 1}}), ANN, "demo")
    assert one == two


@pytest.mark.parametrize(
    "other",
    [
        request("stop"),
        request(metadata={"a": 1}),
        request(configuration=a2a.SendMessageConfiguration(history_length=0)),
    ],
)
def test_message_configuration_and_metadata_are_the_request(other: pb.SubmitRequest) -> None:
    first, second = identify(request(), ANN, "demo"), identify(other, ANN, "demo")
    assert first[0] == second[0] and first[1] != second[1]


def test_the_transport_is_not_part_of_the_request() -> None:
    """a2a D12: nor is the time of the answer, which a stream ignores and of which the versions have other defaults."""
    early = a2a.SendMessageConfiguration(return_immediately=True)
    for other in (request(tenant="demo"), request(configuration=early)):
        assert identify(other, ANN, "demo") == identify(request(), ANN, "demo")


def test_invocation_ids_differ_by_owner_agent_and_key_and_between_sends_without_a_key() -> None:
    ids = {
        identify(request(), ANN, "demo")[0],
        identify(request(), BOB, "demo")[0],
        identify(request(), ANN, "other")[0],
        identify(request(key="l"), ANN, "demo")[0],
        identify(request(key=""), ANN, "demo")[0],
        identify(request(key=""), ANN, "demo")[0],
    }
    assert len(ids) == 6


def test_the_key_of_a_rewind_never_names_a_send() -> None:
    """C10: rewinds of one owner share one scope of keys; the request hash has session and invocation."""

    def rewind(key: str = "k", context_id: str = "c", before: str = "i") -> pb.RewindSessionRequest:
        return pb.RewindSessionRequest(context_id=context_id, before_invocation_id=before, idempotency_key=key)

    one = identify_rewind(rewind(), ANN)
    assert one == identify_rewind(rewind(), ANN)
    assert one[0] != identify(request(), ANN, "")[0] and one[0] != identify_rewind(rewind(), BOB)[0]
    for other in (rewind(context_id="d"), rewind(before="j")):
        assert identify_rewind(other, ANN)[0] == one[0] and identify_rewind(other, ANN)[1] != one[1]
    assert len({identify_rewind(rewind(key=""), ANN)[0] for _ in range(2)}) == 2
    with pytest.raises(Invalid):
        identify_rewind(rewind(key="k" * 256), ANN)


def test_derived_ids_are_reproducible_and_differ_by_purpose_and_invocation() -> None:
    assert derived("i", "task") == derived("i", "task")
    assert len({derived("i", "task"), derived("i", "context"), derived("j", "task")}) == 3


def test_the_ids_of_a_turn_begin_with_its_time() -> None:
    """So all rows of a turn stand together in the indexes."""
    invocation_id, _ = identify(request(key=""), ANN, "")
    ids = [invocation_id, derived(invocation_id, "task"), derived(derived(invocation_id, "turn"), "task")]
    assert len({one[:12] for one in ids}) == 1 and len({one[12:] for one in ids}) == 3
    assert all(len(one) == 32 for one in ids)
