"""The caller of a gRPC call, as metadata: one ASCII value, signed where the plane has an internal secret.

The value is base64url JSON (RFC 4648 section 5); with a secret, "." and its HMAC-SHA256 (RFC 2104) follow.
"""

import base64
import hashlib
import hmac
import json
import re
from typing import Any, Final

PRINCIPAL_KEY: Final = "x-taskplane-principal"
"""The key of the caller in the metadata of every call."""

MAX_NAME: Final = 255
"""The number of characters that a tenant, an owner and an actor may have."""

# Anything else that is signed with the same secret (page tokens, for one) can never be taken for a principal.
_PURPOSE: Final = b"taskplane principal 1\0"

# Characters that no database text holds: U+0000, and the halves of a surrogate pair, which JSON can spell.
_UNSTORABLE: Final = re.compile(r"[\x00\ud800-\udfff]")


def principal_header(
    tenant: str, owner: str, *, actor: str = "", secret: bytes = b"", service: bool = False, operator: bool = False
) -> tuple[str, str]:
    """Return the metadata, a key and a value, that makes a call act for `owner` in `tenant`.

    Pass it as `metadata=[principal_header("default", "ann")]`. `actor` names the caller in logs and events; empty: the
    owner. `secret` is the internal secret of the plane; empty: none, which only a plane on loopback takes. `service`
    and `operator` ask for the rights of a service and of an operator of the tenant. ValueError: the tenant or the owner
    is empty, or a name has more than 255 characters, a NUL or a lone surrogate.
    """
    actor = actor or owner
    for part, name in (("tenant", tenant), ("owner", owner), ("actor", actor)):
        if not name:
            raise ValueError(f"{part} must not be empty")
        if not storable(name):
            raise ValueError(f"{part} must have at most {MAX_NAME} characters, without NUL and lone surrogates")
    return PRINCIPAL_KEY, principal_value(tenant, owner, actor, service=service, operator=operator, secret=secret)


def principal_value(tenant: str, owner: str, actor: str, *, service: bool, operator: bool, secret: bytes) -> str:
    """Return the value alone, of any names: services leave tenant and owner empty in calls of their own."""
    fields: dict[str, Any] = {"t": tenant, "o": owner, "a": actor, "s": service}
    if operator:
        fields["op"] = True
    payload = base64.urlsafe_b64encode(json.dumps(fields, separators=(",", ":")).encode()).rstrip(b"=")
    if not secret:
        return payload.decode()
    return f"{payload.decode()}.{signature(secret, payload)}"


def signature(secret: bytes, payload: bytes) -> str:
    """Return the signature of the part of a value before the dot."""
    digest = hmac.digest(secret, _PURPOSE + payload, hashlib.sha256)
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def storable(name: str) -> bool:
    """Return whether a principal may have this name; empty is one that services may have."""
    return len(name) <= MAX_NAME and not _UNSTORABLE.search(name)
