"""Arbitrary messages of any protobuf type, by its descriptor."""

import json
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import strategies as st
from tests.gateway.translate.messages import objects, texts, values

_SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: texts,
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=9),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_INT32: st.integers(-3, 100),
}


@st.composite
def instances(draw: st.DrawFn, form: type[Message]) -> Any:
    """A message of a type, with about half of its fields."""
    found = form()
    _fill(draw, found)
    return found


def _fill(draw: st.DrawFn, found: Any) -> None:
    if isinstance(found, Struct):
        json_format.ParseDict(draw(objects), found)
    elif isinstance(found, Value):
        json_format.Parse(json.dumps(draw(values)), found)
    elif isinstance(found, Timestamp):
        found.seconds = draw(st.integers(-62135596800, 253402300799))
        found.nanos = draw(st.sampled_from([0, 5_000_000, 123_456_000, 123_456_789]))
    else:
        for field in found.DESCRIPTOR.fields:
            if draw(st.booleans()):
                _fill_field(draw, found, field)


def _fill_field(draw: st.DrawFn, found: Any, field: FieldDescriptor) -> None:
    value = getattr(found, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        inner = field.message_type.fields_by_name["value"]
        for key in draw(st.lists(texts, max_size=2)):
            if inner.message_type is None:
                value[key] = draw(_SCALARS[inner.type])
            else:
                _fill(draw, value[key])
    elif field.message_type is not None:
        if field.is_repeated:
            for _ in range(draw(st.integers(0, 2))):
                _fill(draw, value.add())
        else:
            value.SetInParent()
            _fill(draw, value)
    elif field.enum_type is not None:
        setattr(found, field.name, draw(st.sampled_from([one.number for one in field.enum_type.values])))
    elif field.is_repeated:
        value.extend(draw(st.lists(_SCALARS[field.type], max_size=2)))
    else:
        setattr(found, field.name, draw(_SCALARS[field.type]))
