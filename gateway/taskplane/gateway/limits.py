"""The limits of requests to the gateway, and the checks of a whole request and of its headers."""

import re
from typing import Final

from google.protobuf.message import Message

from taskplane.runtime.errors import Invalid
from taskplane.runtime.services import MAX_REQUEST
from taskplane.runtime.validation import MAX_ID, invalid

# Bytes of a request to a service. Leaves room for the fields that the services add to a message.
MAX_REQUEST_BYTES: Final = MAX_REQUEST - 64 * 1024
# The greatest growth from JSON to protobuf; `0,` in a list grows most, to 11 bytes.
MAX_GROWTH: Final = 8
# JSON values of one request that are converted to protobuf, which takes far longer than parsing.
MAX_VALUES: Final = 400_000
MAX_METADATA_BYTES: Final = 64 * 1024
MAX_PARTS: Final = 100
# References to tasks, or extensions, of one message or artifact: each is looked up or compared.
MAX_NAMES: Final = 100
# Elements of any other list.
MAX_ITEMS: Final = 100_000
# Characters of a page token.
MAX_TOKEN_LENGTH: Final = 4096

# The header of a cursor; errors name it.
LAST_EVENT_ID: Final = "Last-Event-ID"

# Rules of fields that several readers and checks share.
NO_CONTENT: Final = "must have exactly one of text, raw, url and data"
NO_CONTENT_0_3: Final = "must have exactly one of text, file and data"
REQUIRED: Final = "is required"
TOO_LARGE: Final = f"must not be larger than {MAX_METADATA_BYTES} bytes"
TOO_MANY_NAMES: Final = f"must have at most {MAX_NAMES} elements"
TOO_MANY_PARTS: Final = f"must have at most {MAX_PARTS} elements"

_CURSOR: Final = re.compile(r"[a-z2-7]{1,32}-(?:0|[1-9][0-9]{0,17})")


def check_size(message: Message) -> None:
    """Raise Invalid `REQUEST_TOO_LARGE` for a request that is too large for the services."""
    size = message.ByteSize()
    if size > MAX_REQUEST_BYTES:
        raise Invalid(
            f"the request has {size} bytes of content; at most {MAX_REQUEST_BYTES:,} are allowed",
            reason="REQUEST_TOO_LARGE",
            suggestion="send large content by URL, or in several messages",
            metadata={"limit": str(MAX_REQUEST_BYTES)},
        )


def check_cursor(cursor: str, name: str = LAST_EVENT_ID) -> None:
    """Raise Invalid `CURSOR_MALFORMED` unless the cursor is empty or well-formed. `name`: its place in the request."""
    if cursor and not _CURSOR.fullmatch(cursor):
        raise Invalid(
            f"{name} must be an event id of this server",
            reason="CURSOR_MALFORMED",
            fields={name: "is malformed"},
        )


def check_key(key: str) -> None:
    """Raise Invalid for an idempotency key that the services would refuse."""
    if len(key) > MAX_ID:
        raise invalid({"Idempotency-Key": f"must have at most {MAX_ID} characters"})


def parse_if_match(if_match: str, what: str) -> int:
    """Return the generation or version (`what`) in If-Match, given as a number, a tag or the end of a cursor; 0: any.
    Raise Invalid for anything else."""
    text = if_match.removeprefix("W/").strip('"').rpartition("-")[2]
    if text in ("", "*"):
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text)):
        raise invalid({"If-Match": f"must name a {what}"})
    return int(text)


def check_user(user: str) -> None:
    """Raise Invalid `BAD_USER_ID` for a user id that is too long or not printable."""
    if len(user) > MAX_ID or not user.isprintable():
        raise Invalid(f"the user id must consist of at most {MAX_ID} printable characters", reason="BAD_USER_ID")
