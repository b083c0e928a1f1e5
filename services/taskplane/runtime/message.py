"""An A2A message as far as this package uses it. It must not import the generated types, which match these."""

from collections.abc import Iterable
from typing import Literal, Protocol

from google.protobuf.struct_pb2 import Struct


class Part(Protocol):
    """A part of a message."""

    @property
    def text(self) -> str: ...
    @property
    def metadata(self) -> Struct: ...

    def HasField(self, field_name: Literal["text"], /) -> bool: ...

    def SerializeToString(self, *, deterministic: bool = ...) -> bytes: ...


class Message(Protocol):
    """A message."""

    @property
    def message_id(self) -> str: ...
    @property
    def role(self) -> int: ...
    @property
    def parts(self) -> Iterable[Part]: ...
    @property
    def metadata(self) -> Struct: ...
    @property
    def reference_task_ids(self) -> Iterable[str]: ...

    def ClearField(self, field_name: Literal["metadata"], /) -> None: ...

    def SerializeToString(self, *, deterministic: bool = ...) -> bytes: ...
