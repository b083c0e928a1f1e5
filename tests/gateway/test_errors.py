"""Refusals of rewinds and of sends with an expected version, and database damage: over each binding, and under /api."""

import json
from collections.abc import AsyncGenerator

import pytest
from tests.gateway.bindings import Binding, HttpBinding
from tests.gateway.failures import Failure

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.a2a.follow import Item
from taskplane.gateway.a2a.streams import PayloadStream
from taskplane.gateway.errors import a2a_error, error_1_0, error_api, http_status
from taskplane.runtime.errors import Conflict, DataLoss, Invalid, NotFound, PlaneError, Refused

REFUSALS = [
    (Conflict("m", reason="VERSION_MISMATCH", metadata={"version": "7"}), 409, -32602),
    (Conflict("m", reason="REWIND_IN_FLIGHT", metadata={"version": "7"}, retry_after=0.1), 409, -32602),
    (NotFound("m", reason="INVOCATION_NOT_FOUND"), 404, -32602),
    (NotFound("m", reason="SESSION_NOT_FOUND"), 404, -32001),
    (Refused("m", reason="NOTHING_TO_UNDO"), 409, -32004),
    (Refused("m", reason="TOO_LATE_TO_UNDO"), 409, -32004),
    (Refused("m", reason="SUPERSEDED"), 409, -32004),
    (Refused("m", reason="SESSION_BUSY"), 409, -32004),
    (Refused("m", reason="TERMINAL", suggestion="s"), 409, -32004),
    (Invalid("m", reason="BAD_STATE"), 400, -32602),
    (DataLoss("m", reason="DATABASE_DAMAGED"), 500, -32603),
]


@pytest.mark.parametrize(("error", "status", "code"), REFUSALS, ids=lambda value: getattr(value, "reason", ""))
def test_a_refusal_has_its_code_reason_and_version_under_api(error: PlaneError, status: int, code: int) -> None:
    """R9, T9: clients decide by the reason, and get the current version."""
    assert http_status(error) == status
    body = error_api(error, "r")
    assert (body["code"], body.get("metadata", {})) == (error.reason, error.metadata)
    assert body["retryable"] is (error.reason == "REWIND_IN_FLIGHT")
    assert a2a_error(error).code == code


@pytest.mark.parametrize(("error", "status", "code"), REFUSALS, ids=lambda value: getattr(value, "reason", ""))
def test_a_refusal_has_its_code_reason_and_version_over_each_binding(
    binding: Binding, error: PlaneError, status: int, code: int
) -> None:
    """R9, T9: the same over each."""
    assert binding.told(error) == Failure(code, error.reason, error.metadata, error.suggestion)


def test_a_refusal_of_1_0_has_the_reason_of_the_protocol_and_the_own_reason() -> None:
    info = error_1_0(Refused("m", reason="TERMINAL"), "r")["data"][0]
    assert (info["reason"], info["metadata"]["reason"]) == ("UNSUPPORTED_OPERATION", "TERMINAL")


async def test_an_error_after_the_first_event_is_the_last_event_of_the_stream(http_binding: HttpBinding) -> None:
    """a2a C17: official clients lose the error code of a JSON-RPC event with a name, and of a REST event without
    one."""
    closed: list[bool] = []

    async def broken() -> AsyncGenerator[list[Item], None]:
        try:
            yield [("abc-1", a2a.TaskStatusUpdateEvent(task_id="t", context_id="c"))]
            raise NotFound("gone", reason="TASK_NOT_FOUND")
        finally:
            closed.append(True)

    written = [chunk async for chunk in http_binding.events(PayloadStream(broken(), growing_text=False))]
    first, last = [dict(line.split(": ", 1) for line in chunk.decode().splitlines() if line) for chunk in written]
    assert (first["id"], "event" in first) == ("abc-1", False)
    assert list(last) == (["event", "data"] if http_binding.name.startswith("rest") else ["data"])
    assert last.get("event", "error") == "error"
    assert http_binding.read("SubscribeToTask", json.loads(last["data"])) == Failure(-32001, "TASK_NOT_FOUND")
    assert closed == [True]
