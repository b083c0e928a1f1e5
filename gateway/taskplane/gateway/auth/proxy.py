"""The scheme of a trusted proxy, which signs users in and names them in X-User-Id."""

import hmac
from functools import lru_cache
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.auth import user_names
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.auth.scheme import RequestHeaders, check_once
from taskplane.gateway.settings import GatewaySettings
from taskplane.runtime.errors import Unauthenticated
from taskplane.runtime.principal import Principal

_SECRET: Final = b"x-taskplane-proxy-secret"


class TrustedProxy:
    """The scheme for calls with the secret of the proxy."""

    name = "proxy"
    asked = None
    trusted_names = frozenset({user_names.IN_HEADER})

    def __init__(self, settings: GatewaySettings) -> None:
        self._secret = settings.proxy_secret.encode()
        self._tenant = settings.tenant
        self._operators = frozenset(settings.proxy_operators)
        self._user = lru_cache(4096)(self._caller)

    @classmethod
    def configured(cls, settings: GatewaySettings) -> "TrustedProxy | None":
        """Return the scheme; None if no proxy is trusted."""
        return cls(settings) if settings.proxy_secret else None

    def identify(self, credentials: RequestHeaders) -> Caller | None:
        """Return the user that the proxy names; None for a call without its secret."""
        check_once(credentials, _SECRET)
        shown = credentials.raw(_SECRET)
        if not shown or not hmac.compare_digest(shown, self._secret):
            return None
        user = user_names.in_header(credentials)
        if not user:
            raise Unauthenticated("the header X-User-Id is required from the proxy", reason="NO_CREDENTIALS")
        return self._user(user)

    def alive(self, caller: Caller) -> bool:
        """Return True: the proxy ends the connections of its users."""
        return True

    def describe(self, card: a2a.AgentCard) -> None:
        """Add nothing: the proxy has a way of its own to sign users in."""

    def _caller(self, user: str) -> Caller:
        return Caller(Principal(self._tenant, user, user, operator=user in self._operators), self.name)
