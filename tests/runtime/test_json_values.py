from google.protobuf.struct_pb2 import Struct

from taskplane.runtime.json_values import text_in


def test_the_text_under_the_first_key_that_is_there_is_read() -> None:
    metadata = Struct()
    metadata.update({"first": "one", "second": "two", "number": 3, "empty": ""})
    assert text_in(metadata, "first", "second") == "one"
    assert text_in(metadata, "other", "second") == "two"
    assert text_in(metadata, "empty", "second") == text_in(metadata, "number") == text_in(metadata, "other") == ""


def test_a_key_that_is_looked_up_is_not_added() -> None:
    metadata = Struct()
    assert text_in(metadata, "kind") == ""
    assert not metadata.fields
