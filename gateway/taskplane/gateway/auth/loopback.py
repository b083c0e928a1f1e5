"""The scheme of development on this machine: clients name the user, and every user is an operator."""

from functools import lru_cache
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.auth import user_names
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.auth.scheme import RequestHeaders
from taskplane.gateway.settings import GatewaySettings
from taskplane.runtime.principal import Principal

_DEFAULT_USER: Final = "local"


class Loopback:
    """The scheme in use when no other one is configured, on loopback only."""

    name = "loopback"
    asked = None
    trusted_names = frozenset({user_names.IN_HEADER, user_names.IN_QUERY})

    def __init__(self, settings: GatewaySettings) -> None:
        self._tenant = settings.tenant
        self._user = lru_cache(4096)(self._caller)

    def identify(self, credentials: RequestHeaders) -> Caller:
        """Return the user in the parameter user_id, else in the header X-User-Id, else `local`."""
        named = user_names.in_header(credentials)
        return self._user(user_names.in_query(credentials) or named or _DEFAULT_USER)

    def alive(self, caller: Caller) -> bool:
        """Return True: a name does not expire."""
        return True

    def describe(self, card: a2a.AgentCard) -> None:
        """Add nothing: no credential is needed."""

    def _caller(self, user: str) -> Caller:
        return Caller(Principal(self._tenant, user, user, operator=True), self.name)
