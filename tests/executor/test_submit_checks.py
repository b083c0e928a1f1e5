"""Checks of a send, for any size."""

import itertools

import pytest
from google.protobuf.struct_pb2 import Value

from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.executor.turns import submit_checks
from taskplane.runtime.errors import Invalid


def nested(kinds: str, width: int) -> Value:
    """Returns a value in a list ("l") or an object ("o") for each level above it, each of them `width` values wide."""
    value = inner = Value()
    for kind in kinds:
        if kind == "l":
            for _ in range(width - 1):
                inner.list_value.values.add().bool_value = True
            inner = inner.list_value.values.add()
        else:
            for number in range(width - 1):
                inner.struct_value.fields[f"b{number}"].bool_value = True
            inner = inner.struct_value.fields["a"]
    inner.string_value = "inside"
    return value


@pytest.mark.parametrize("width", [1, 50])
@pytest.mark.parametrize(("kinds", "most"), [("l", 42), ("o", 28), ("lo", 33), ("oll", 36)])
def test_data_is_accepted_up_to_the_depth_of_the_parser(kinds: str, most: int, width: int) -> None:
    """At any width: an object is three levels of protobuf, a list two."""
    levels = "".join(itertools.islice(itertools.cycle(kinds), most + 1))
    request = pb.SubmitRequest()
    part = request.request.message.parts.add()
    part.data.CopyFrom(nested(levels[:most], width))
    submit_checks.submit(request)
    part.data.CopyFrom(nested(levels, width))
    with pytest.raises(Invalid) as refused:
        submit_checks.submit(request)
    assert refused.value.reason == "TOO_DEEP"


def test_a_session_id_that_cannot_stand_in_a_path_is_refused() -> None:
    """S: such a session could not be read."""
    request = pb.SubmitRequest()
    request.request.message.parts.add().text = "x"
    for context_id in (".", ".."):
        request.request.message.context_id = context_id
        with pytest.raises(Invalid) as refused:
            submit_checks.submit(request)
        assert set(refused.value.fields) == {"message.context_id"}
