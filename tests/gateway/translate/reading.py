"""The reading of params in the same steps as the bindings: parse, then check."""

from typing import Any

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.a2a.operations import OPERATIONS
from taskplane.gateway.bindings.params import read
from taskplane.gateway.translate.dialect import Read
from taskplane.gateway.translate.v1_0 import Dialect


def read_params(dialect: Dialect, operation: str, params: Any) -> Read:
    """Return the request of an operation. Raise Invalid."""
    return read(OPERATIONS[operation], dialect, params, exact=False)


def read_send(dialect: Dialect, params: Any) -> a2a.SendMessageRequest:
    """Return the request of a send. Raise Invalid."""
    request = read_params(dialect, "SendMessage", params).request
    assert isinstance(request, a2a.SendMessageRequest)
    return request
