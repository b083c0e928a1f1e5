"""Encoding and check of the principal in the metadata of a call. taskplane.api.principal defines the format."""

import base64
import binascii
import hmac
import json
from functools import lru_cache
from typing import Any, Final, cast

from taskplane.api.principal import PRINCIPAL_KEY, principal_value, signature, storable
from taskplane.runtime.errors import Unauthenticated
from taskplane.runtime.principal import Principal

__all__ = ["PRINCIPAL_KEY", "PrincipalSigner"]


class PrincipalSigner:
    """Encodes and signs principals for metadata, and decodes and checks them, with one secret."""

    def __init__(self, secret: bytes) -> None:
        """`secret`: if it is empty, nothing is signed or checked; that is for loopback only."""
        self._secret = secret
        self.cached_read: Final = lru_cache(maxsize=1_024)(self.read)
        """`read` with a cache of its results."""

    def write(self, principal: Principal) -> str:
        """Return the encoded principal."""
        return principal_value(
            principal.tenant,
            principal.owner,
            principal.actor,
            service=principal.service,
            operator=principal.operator,
            secret=self._secret,
        )

    def read(self, value: str) -> Principal:
        """Decode a principal. Unauthenticated: the value is not a principal, or not signed with our secret."""
        payload, _, shown = value.partition(".")
        if self._secret and not hmac.compare_digest(shown.encode(), signature(self._secret, payload.encode()).encode()):
            raise Unauthenticated(
                "the principal of the caller is not signed with the secret of this service",
                reason="BAD_SIGNATURE",
                suggestion="set the same internal_secret in every process",
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
        if not all(storable(name) for name in (tenant, owner, actor)):
            raise _malformed()
        return Principal(tenant, owner, actor, service, operator)


def _malformed() -> Unauthenticated:
    return Unauthenticated("the principal of the caller cannot be parsed", reason="BAD_PRINCIPAL")
