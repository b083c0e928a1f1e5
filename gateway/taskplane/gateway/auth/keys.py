"""The scheme of API keys: Authorization: Bearer <id>.<secret>, or X-API-Key."""

from pathlib import Path
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.auth.key_file import Key, KeyFile
from taskplane.gateway.auth.scheme import Asked, RequestHeaders, check_once
from taskplane.gateway.settings import GatewaySettings
from taskplane.runtime.principal import Principal

_BEARER: Final = "bearer"
_HEADER: Final = "apiKey"


class ApiKeys:
    """The scheme for calls with a key of the file. The key decides about owner, tenant and rights."""

    name = "keys"
    asked = Asked("key", "an API key", "send Authorization: Bearer <id>.<secret>, or X-API-Key")
    trusted_names: frozenset[str] = frozenset()

    def __init__(self, file: KeyFile) -> None:
        self._file = file

    @classmethod
    def configured(cls, settings: GatewaySettings) -> "ApiKeys | None":
        """Return the scheme; None if there is no file of keys. Raise Invalid if it cannot be read."""
        return cls(KeyFile(Path(settings.api_keys), settings.tenant)) if settings.api_keys else None

    def identify(self, credentials: RequestHeaders) -> Caller | None:
        """Return the owner of the key; None for a call without one. Raise Unauthenticated."""
        check_once(credentials, b"x-api-key", b"authorization")
        token = credentials.header(b"x-api-key")
        if not token:
            scheme, _, value = credentials.header(b"authorization").partition(" ")
            token = value.strip() if scheme.lower() == _BEARER else ""
        if not token:
            return None
        key = self._file.find(token)
        principal = Principal(key.tenant, key.owner, key.owner, operator=key.may_operate)
        return Caller(principal, self.name, key, key.may_write, key.may_read)

    def alive(self, caller: Caller) -> bool:
        """Return whether the key is still in the file, unchanged, and has not expired."""
        return isinstance(caller.credential, Key) and self._file.alive(caller.credential)

    def describe(self, card: a2a.AgentCard) -> None:
        """Add both headers; either one is enough."""
        card.security_schemes[_BEARER].http_auth_security_scheme.scheme = "Bearer"
        header = card.security_schemes[_HEADER].api_key_security_scheme
        header.location, header.name = "header", "X-API-Key"
        for scheme in (_BEARER, _HEADER):
            card.security_requirements.add().schemes[scheme].SetInParent()
