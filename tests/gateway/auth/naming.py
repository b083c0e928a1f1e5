"""The modes of authentication, and the places where a request can name a user."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

NAMED: Final = "olga"
"""The forged name: an operator, and the owner of a session and a task."""
SECRET: Final = "between us"
KEYS: Final = {
    "ann_key": 'owner = "ann"',
    "olga_key": 'owner = "olga"\nscopes = ["read", "write", "operate"]',
}
PROXY: Final = {"X-Taskplane-Proxy-Secret": SECRET}
_BEARER: Final = {"Authorization": "Bearer ann_key.s3cret"}
_BOTH: Final = {"api_keys": True, "proxy_secret": SECRET}


@dataclass(frozen=True)
class Mode:
    """A way to authenticate. `user`: the caller of a request with these headers."""

    settings: Mapping[str, Any]
    headers: Mapping[str, str]
    user: str


MODES: Final = {
    "loopback": Mode({}, {}, "local"),
    "loopback, named": Mode({}, {"X-User-Id": "ann"}, "ann"),
    "keys": Mode({"api_keys": True}, _BEARER, "ann"),
    "proxy": Mode({"proxy_secret": SECRET}, {**PROXY, "X-User-Id": "ann"}, "ann"),
    "keys and proxy, by key": Mode(_BOTH, _BEARER, "ann"),
    "keys and proxy, by proxy": Mode(_BOTH, {**PROXY, "X-User-Id": "ann"}, "ann"),
}


@dataclass(frozen=True)
class Place:
    """A position in a request that holds the name of another user.

    `counts`: the modes in which it names the caller; `refused`: those in which the request is 401. In all other
    modes it has no effect. `instead`: the headers replace X-User-Id instead of being added to it.
    """

    headers: tuple[tuple[str, str], ...] = ()
    query: str = ""
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    counts: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    instead: bool = False


_ALL: Final = frozenset(MODES)
LOOPBACK: Final = frozenset({"loopback", "loopback, named"})
_BY_PROXY: Final = frozenset({"proxy", "keys and proxy, by proxy"})
_READ: Final = LOOPBACK | _BY_PROXY
_FORGED: Final = {"user_id": NAMED, "userId": NAMED, "owner": NAMED, "tenant": "elsewhere", "actor": NAMED}
_PRINCIPAL: Final = base64.urlsafe_b64encode(
    json.dumps({"t": "default", "o": NAMED, "a": NAMED, "s": True, "op": True}).encode()
).decode()
PLACES: Final = {
    "header": Place((("X-User-Id", NAMED),), counts=_READ, instead=True),
    "header of another case": Place((("x-USER-id", NAMED),), counts=_READ, instead=True),
    "header, doubled": Place((("X-User-Id", "ann"), ("X-User-Id", NAMED)), refused=_ALL, instead=True),
    "header, doubled the other way": Place((("X-User-Id", NAMED), ("X-User-Id", "ann")), refused=_ALL, instead=True),
    "header, doubled and equal": Place((("X-User-Id", "ann"), ("X-User-Id", "ann")), refused=_ALL, instead=True),
    "header, doubled and empty": Place((("X-User-Id", ""), ("X-User-Id", NAMED)), refused=_ALL, instead=True),
    "header, joined": Place((("X-User-Id", f"ann, {NAMED}"),), refused=_READ, instead=True),
    "header, joined to nothing": Place((("X-User-Id", f",{NAMED}"),), refused=_READ, instead=True),
    "header, empty": Place(
        (("X-User-Id", ""),), query=f"user_id={NAMED}", counts=LOOPBACK, refused=_BY_PROXY, instead=True
    ),
    "query": Place(query=f"user_id={NAMED}", counts=LOOPBACK),
    "query, encoded": Place(query="user%5Fid=%6Flga", counts=LOOPBACK),
    "query, doubled": Place(query=f"user_id=ann&user_id={NAMED}", counts=LOOPBACK),
    "query of other names": Place(query=f"userId={NAMED}&owner={NAMED}&x-user-id={NAMED}&tenant=elsewhere"),
    "other headers": Place(
        (
            ("X-Tenant", "elsewhere"),
            ("X-Agent-Name", NAMED),
            ("X-Forwarded-User", NAMED),
            ("X-Auth-Request-User", NAMED),
            ("X-Remote-User", NAMED),
            ("Remote-User", NAMED),
            ("Forwarded", f"for=127.0.0.1;by={NAMED};host=elsewhere"),
            ("X-Forwarded-For", "127.0.0.1"),
            ("X_User_Id", NAMED),
            ("User-Id", NAMED),
            ("Cookie", f"user_id={NAMED}; X-User-Id={NAMED}"),
            ("X-Taskplane-Principal", _PRINCIPAL),
        )
    ),
    "body": Place(body=_FORGED),
    "metadata": Place(metadata={**_FORGED, "X-User-Id": NAMED, "kagent_user_id": NAMED, "adk_user_id": NAMED}),
}
