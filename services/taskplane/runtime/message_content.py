"""The content of a message: its identity beside its id, its text, digests of both, and its plain parts."""

import hashlib

from taskplane.runtime.message import Message, Part


def words_of(message: Message) -> str:
    """Return the text parts of a message in one line, with white space as one blank."""
    return " ".join(" ".join(part.text for part in message.parts).split())


def is_plain_part(part: Part) -> bool:
    """Return whether a part is a text and nothing else. Two such parts can be joined to one."""
    return part.HasField("text") and not (part.HasField("metadata") or part.filename or part.media_type)


def digests(message: Message) -> tuple[int, int]:
    """Return the digest of the id of a message (0 without an id), and the digest of its role and content.

    The content is its text, with white space as one blank; if there are other parts than texts, all parts.
    """
    parts = list(message.parts)
    if all(part.HasField("text") for part in parts):
        said = b"text\0" + words_of(message).encode()
    else:
        said = b"\0".join([b"parts", *(part.SerializeToString(deterministic=True) for part in parts)])
    return id_digest(message.message_id), _digest(b"%d\0" % message.role + said)


def id_digest(message_id: str) -> int:
    """Return the digest of an id; 0 for ""."""
    return _digest(message_id.encode()) if message_id else 0


def _digest(content: bytes) -> int:
    return int.from_bytes(hashlib.sha256(content).digest()[:8], "little")
