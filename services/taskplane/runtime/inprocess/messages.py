"""Messages for the receiver: the same object if both sides use one class, else an object parsed from its bytes."""

from collections.abc import Callable
from functools import lru_cache
from inspect import unwrap
from typing import Any

from google.protobuf.message import Message

Serializer = Callable[[Any], bytes] | None
Deserializer = Callable[[bytes], Any] | None


class MessageTooLarge(Exception):
    """A message beyond the limit of its receiver. The text is that of gRPC."""


def received(message: Any, serialize: Serializer, deserialize: Deserializer, limit: int, act: str) -> Any:
    """Return `message` as a receiver with this deserializer gets it.

    MessageTooLarge: it has more than `limit` bytes; `act`: the action of the client ("Sent", "Received").
    """
    size: int
    if isinstance(message, _class_of(deserialize)):
        size = message.ByteSize()
    else:
        raw = serialize(message) if serialize is not None else message
        size = len(raw)
        message = deserialize(raw) if deserialize is not None else raw
    if size > limit:
        raise MessageTooLarge(f"CLIENT: {act} message larger than max ({size} vs. {limit})")
    return message


@lru_cache(maxsize=1_024)
def _class_of(deserialize: Deserializer) -> type[Message] | tuple[()]:
    """Return the message class of a `FromString` or of its wrapper; an empty tuple if it is not known."""
    owner = getattr(unwrap(deserialize), "__self__", None) if deserialize is not None else None
    return owner if isinstance(owner, type) and issubclass(owner, Message) else ()
