"""What refusals of rewinds and of guarded sends, and damage, are on the wire, in each form there is."""

import pytest

from taskplane.gateway.errors import error_0_3, error_1_0, error_api, http_status
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
    (Invalid("m", reason="BAD_STATE"), 400, -32602),
    (DataLoss("m", reason="DATABASE_DAMAGED"), 500, -32603),
]


@pytest.mark.parametrize(("error", "status", "code"), REFUSALS, ids=lambda value: getattr(value, "reason", ""))
def test_a_refusal_has_its_code_reason_and_version_everywhere(error: PlaneError, status: int, code: int) -> None:
    """R9, T9: a client decides by the reason, and has the version at hand."""
    assert http_status(error) == status
    body = error_api(error, "r")
    assert (body["code"], body.get("metadata", {})) == (error.reason, error.metadata)
    assert body["retryable"] is (error.reason == "REWIND_IN_FLIGHT")
    old = error_0_3(error, "r")
    assert (old["code"], old["data"]["reason"]) == (code, error.reason)
    new = error_1_0(error, "r")
    info = new["data"][0]
    assert new["code"] == code
    assert error.reason in (info["reason"], info["metadata"].get("reason"))
    assert info["metadata"].items() >= error.metadata.items()
