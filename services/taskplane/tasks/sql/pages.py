"""Pages of listings: the places between them, as tokens, and their sizes."""

import struct
from typing import Final, NamedTuple

from taskplane.runtime.bounds import Range
from taskplane.runtime.page_tokens import opened, sealed
from taskplane.runtime.validation import WrongFields
from taskplane.tasks.domain.task import Scope

# The filters of a listing, without the caller and the page size.
Bound = tuple[str | int, ...]

_HEAD: Final = struct.Struct("!qI")


class TaskPlace(NamedTuple):
    """The place after task `id` with the time `at` (microseconds). `total` was counted for the first page."""

    at: int
    id: str
    total: int


def token_of(place: TaskPlace, key: bytes, scope: Scope, query: Bound) -> str:
    """Return URL-safe text for `place_of`, for the same caller and the same `query`. The page size may differ."""
    return sealed(_HEAD.pack(place.at, place.total) + place.id.encode(), key, (scope.tenant, scope.owner, *query))


def place_of(token: str, key: bytes, scope: Scope, query: Bound) -> TaskPlace | None:
    """Return the place of a token; None without a token. Invalid `BAD_PAGE_TOKEN`: see `opened`."""
    if not token:
        return None
    body = opened(token, key, (scope.tenant, scope.owner, *query))
    at, total = _HEAD.unpack_from(body)
    return TaskPlace(at, body[_HEAD.size :].decode(), total)


def check_page_size(size: int, most: int) -> None:
    """Raise Invalid unless the size is 1 to `most`."""
    wrong = WrongFields()
    wrong.within("page_size", size, Range(1, most))
    wrong.check()
