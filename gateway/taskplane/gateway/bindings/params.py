"""Requests in JSON, read and checked: the same for every binding that takes JSON."""

from typing import Any, Final

from google.protobuf.empty_pb2 import Empty

from taskplane.gateway.a2a.operations import Operation
from taskplane.gateway.translate.dialect import Read
from taskplane.gateway.translate.fields import is_object, params_of
from taskplane.gateway.translate.reading import Reading
from taskplane.gateway.translate.v1_0 import Dialect
from taskplane.runtime.validation import MOST_WRONG, invalid

_UNREAD: Final = Read(Empty())
_INEXACT: Final = "is an integer that a double cannot represent exactly"


def tenant_of(dialect: Dialect, params: Any) -> str:
    """Return the tenant that the params of a call name; empty if they name none. A2A 0.3 has no tenants."""
    tenant = params.get("tenant") if dialect.has_tenants and is_object(params) else None
    # `read` refuses what is no text.
    return tenant if type(tenant) is str else ""


def read(operation: Operation, dialect: Dialect, params: Any, *, exact: bool) -> Read:
    """Return the request of an operation. `exact`: refuse numbers that would become texts.

    Raise Invalid with every field that is wrong. Call it in the plane's worker, since large requests take long.
    """
    bad = Reading()
    fields = params_of(params, bad)
    if dialect.has_tenants:
        fields.text("tenant")
    reader = dialect.requests.readers.get(operation.name)
    if reader is None:
        bad.check()
        return _UNREAD
    found = reader(fields)
    operation.check(found.request, bad)
    bad.check()
    if exact and (converted := bad.told):
        inexact = bad.as_sent(dict.fromkeys(converted[:MOST_WRONG], _INEXACT))
        raise invalid(inexact, suggestion="send the number as a string")
    return found
