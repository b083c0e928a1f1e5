"""The principal in the metadata of a call: one ASCII value, signed where a secret is configured.

The value is base64url JSON (RFC 4648 section 5); with a secret, "." and its HMAC-SHA256 (RFC 2104) follow.
"""

import base64
import binascii
import hashlib
import hmac
import json
import re
from functools import lru_cache
from typing import Any, Final, cast

from taskplane.runtime.errors import Unauthenticated
from taskplane.runtime.principal import Principal
from taskplane.runtime.validation import MAX_ID

PRINCIPAL_KEY: Final = "x-taskplane-principal"

# Anything else that is signed with the same secret (page tokens, for one) can never be taken for a principal.
_PURPOSE: Final = b"taskplane principal 1\0"

# Characters that no database text holds: U+0000, and the halves of a surrogate pair, which JSON can spell.
_UNSTORABLE: Final = re.compile(r"[\x00\ud800-\udfff]")


class PrincipalSigner:
    """The form of principals in metadata, written and read with one secret."""

    def __init__(self, secret: bytes) -> None:
        """`secret` empty: values are neither signed nor checked: for loopback only."""
        self._secret = secret
        self.known: Final = lru_cache(maxsize=1_024)(self.read)
        """As `read`, remembered."""

    def write(self, principal: Principal) -> str:
        """Return the value for a principal."""
        fields: dict[str, Any] = {"t": principal.tenant, "o": principal.owner, "a": principal.actor}
        fields["s"] = principal.service
        if principal.operator:
            fields["op"] = True
        payload = base64.urlsafe_b64encode(json.dumps(fields, separators=(",", ":")).encode()).rstrip(b"=")
        if not self._secret:
            return payload.decode()
        return f"{payload.decode()}.{self._signature(payload).decode()}"

    def read(self, value: str) -> Principal:
        """Return the principal of a value. Unauthenticated: not a principal, or not signed with our secret."""
        payload, _, signature = value.partition(".")
        if self._secret and not hmac.compare_digest(signature.encode(), self._signature(payload.encode())):
            raise Unauthenticated(
                "the caller's principal is not signed with this service's secret",
                reason="BAD_SIGNATURE",
                suggestion="give every process the same internal_secret",
            )
        try:
            raw = base64.b64decode(payload + "=" * (-len(payload) % 4), altchars=b"-_", validate=True)
            fields = json.loads(raw)
        except (binascii.Error, ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise _malformed()
        values = cast("dict[str, Any]", fields)
        tenant, owner, actor = (values.get(key) for key in "toa")
        service, operator = values.get("s", False), values.get("op", False)
        if not (isinstance(tenant, str) and isinstance(owner, str) and isinstance(actor, str)):
            raise _malformed()
        if not (isinstance(service, bool) and isinstance(operator, bool)):
            raise _malformed()
        if any(len(name) > MAX_ID or _UNSTORABLE.search(name) for name in (tenant, owner, actor)):
            raise _malformed()
        return Principal(tenant, owner, actor, service, operator)

    def _signature(self, payload: bytes) -> bytes:
        digest = hmac.digest(self._secret, _PURPOSE + payload, hashlib.sha256)
        return base64.urlsafe_b64encode(digest).rstrip(b"=")


def _malformed() -> Unauthenticated:
    return Unauthenticated("the caller's principal cannot be read", reason="BAD_PRINCIPAL")
