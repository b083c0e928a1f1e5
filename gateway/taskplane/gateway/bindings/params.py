"""Requests in JSON, read and checked: the same for every binding that takes JSON."""

from typing import Any, Final

from google.protobuf.empty_pb2 import Empty

from taskplane.gateway.a2a.operations import Operation
from taskplane.gateway.translate.dialect import Read
from taskplane.gateway.translate.fields import params_of
from taskplane.gateway.translate.reading import Reading
from taskplane.gateway.translate.v1_0 import Dialect
from taskplane.runtime.validation import MOST_WRONG, invalid

_UNREAD: Final = Read(Empty())
_INEXACT: Final = "is an integer that a double cannot represent exactly"


def read(operation: Operation, dialect: Dialect, params: Any, *, exact: bool) -> Read:
    """Return the request of an operation. `exact`: refuse numbers that would become texts.

    Raise Invalid with every field that is wrong. Call it in the plane's worker, since large requests take long.
    """
    reader = dialect.requests.readers.get(operation.name)
    if reader is None:
        return _UNREAD
    bad = Reading()
    found = reader(params_of(params, bad))
    operation.check(found.request, bad)
    bad.check()
    if exact and (converted := bad.told):
        raise invalid(dict.fromkeys(converted[:MOST_WRONG], _INEXACT), suggestion="send the number as a string")
    return found
