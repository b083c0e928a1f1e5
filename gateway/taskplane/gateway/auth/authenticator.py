"""Authentication of calls by the schemes that are configured. A further scheme is a file, and a line in SCHEMES."""

from collections.abc import Callable, Sequence
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.reserved_names import RESERVED
from taskplane.gateway.auth.caller import BrowserChecks, Caller
from taskplane.gateway.auth.keys import ApiKeys
from taskplane.gateway.auth.loopback import Loopback
from taskplane.gateway.auth.proxy import TrustedProxy
from taskplane.gateway.auth.scheme import RequestHeaders, Scheme
from taskplane.gateway.auth.user_names import IgnoredNames, check_single
from taskplane.gateway.settings import GatewaySettings
from taskplane.gateway.web.http import Request
from taskplane.runtime.errors import Invalid, Unauthenticated
from taskplane.runtime.validation import is_loopback

Configured = Callable[[GatewaySettings], Scheme | None]
"""Returns a scheme, or None if the settings do not ask for it. Raises Invalid for settings that cannot work."""

# In the order in which they are asked. The first one whose credential is there decides.
SCHEMES: Final[Sequence[Configured]] = (
    TrustedProxy.configured,
    ApiKeys.configured,
)
_NOWHERE: Final[frozenset[str]] = frozenset()


class Authenticator:
    """The schemes of one gateway."""

    def __init__(self, settings: GatewaySettings, schemes: Sequence[Configured] = SCHEMES) -> None:
        """Configure the schemes. Raise Invalid if one cannot work, if the name of the tenant is reserved, or if other
        machines could call without authentication."""
        if settings.tenant in RESERVED:
            raise Invalid(
                f"the tenant {settings.tenant!r} is reserved, since a path of the gateway begins with it",
                reason="RESERVED_TENANT",
                suggestion="set TASKPLANE_GATEWAY_TENANT to another name",
            )
        found = [scheme for configured in schemes if (scheme := configured(settings)) is not None]
        self._required = bool(found)
        if not found and not is_loopback(settings.host):
            raise Invalid(
                f"refusing to listen on {settings.host} without authentication",
                reason="AUTHENTICATION_REQUIRED",
                suggestion="set TASKPLANE_GATEWAY_API_KEYS to a file with API keys, or listen on 127.0.0.1",
            )
        self._schemes: Sequence[Scheme] = found or [Loopback(settings)]
        self._by_name = {scheme.name: scheme for scheme in self._schemes}
        self._browser = BrowserChecks(settings, authenticated=self._required)
        self._ignored = IgnoredNames()

    @property
    def required(self) -> bool:
        """Return whether every call needs credentials; if not, this is development on loopback."""
        return self._required

    @property
    def asked(self) -> list[str]:
        """Return the kinds of credentials that users can be asked for."""
        return [scheme.asked.kind for scheme in self._schemes if scheme.asked]

    def authenticate(self, request: Request) -> Caller:
        """Return the caller of an HTTP request.

        Raise as `identify` does, and PermissionDenied `HOST_NOT_ALLOWED` or `ORIGIN_NOT_ALLOWED`.
        """
        self._browser.check(request.method, request.raw(b"host"), request.header(b"origin"))
        return self.identify(request)

    def identify(self, credentials: RequestHeaders) -> Caller:
        """Return the caller of a call.

        The name of a user counts only in the places that the caller's scheme trusts; elsewhere it is ignored. Raise
        Unauthenticated `NO_CREDENTIALS`, `BAD_CREDENTIALS`, `AMBIGUOUS_CREDENTIALS` or `AMBIGUOUS_USER`; Invalid
        `BAD_USER_ID`.
        """
        check_single(credentials)
        trusted = _NOWHERE
        try:
            for scheme in self._schemes:
                trusted = scheme.trusted_names
                if (caller := scheme.identify(credentials)) is not None:
                    return caller
            trusted = _NOWHERE
        finally:
            self._ignored.count(credentials, trusted)
        raise self._nobody()

    def recognize(self, request: Request) -> Caller | None:
        """Return the caller as `authenticate` does; None for a request without credentials where they are needed."""
        try:
            return self.authenticate(request)
        except Unauthenticated as error:
            if error.reason == "NO_CREDENTIALS":
                return None
            raise

    def alive(self, caller: Caller) -> bool:
        """Return whether the caller's credentials are still valid."""
        return self._by_name[caller.scheme].alive(caller)

    def describe(self, card: a2a.AgentCard) -> None:
        """Add the security schemes of this gateway to a card. Their requirements replace those of the agent."""
        own = a2a.AgentCard()
        for scheme in self._schemes:
            scheme.describe(own)
        if own.security_requirements:
            del card.security_requirements[:]
        card.MergeFrom(own)

    def _nobody(self) -> Unauthenticated:
        asked = [scheme.asked for scheme in self._schemes if scheme.asked]
        return Unauthenticated(
            f"this call needs {' or '.join(one.name for one in asked) or 'credentials'}",
            reason="NO_CREDENTIALS",
            suggestion="; or ".join(one.how for one in asked),
        )
