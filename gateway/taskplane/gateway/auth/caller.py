"""Authentication: the one place that creates principals from requests and checks their Host and Origin."""

import hmac
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from taskplane.gateway.auth.keys import Key, Keys
from taskplane.gateway.auth.user_names import UserNames
from taskplane.gateway.settings import GatewaySettings
from taskplane.gateway.web.http import Request
from taskplane.runtime.errors import Invalid, PermissionDenied, Unauthenticated
from taskplane.runtime.principal import Principal
from taskplane.runtime.validation import is_loopback

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller. `key` is the API key that was used, if any.

    `may_read` and `may_write` are about the tasks and sessions of the caller.
    """

    principal: Principal
    key: Key | None
    may_write: bool
    may_read: bool = True

    @property
    def may_operate(self) -> bool:
        """Return whether the caller may see, cancel and delete the tasks of all owners of its tenant."""
        return self.principal.operator


class Authenticator:
    """The authentication of requests according to the settings."""

    def __init__(self, settings: GatewaySettings) -> None:
        """Read the keys. Raise Invalid if that fails, or if other machines could call without authentication."""
        self._keys = Keys(Path(settings.api_keys), settings.tenant) if settings.api_keys else None
        self._proxy_secret = settings.proxy_secret.encode()
        self._required = self._keys is not None or bool(self._proxy_secret)
        self._hosts = frozenset(host.lower() for host in settings.allowed_hosts)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in settings.cors_origins)
        self._tenant = settings.tenant
        self._operators = frozenset(settings.proxy_operators)
        self._user = lru_cache(4096)(self._named)
        self._names = UserNames()
        self._check_host = lru_cache(256)(self._host_allowed)
        if not self._required and not is_loopback(settings.host):
            raise Invalid(
                f"refusing to listen on {settings.host} without authentication",
                reason="AUTHENTICATION_REQUIRED",
                suggestion="set TASKPLANE_GATEWAY_API_KEYS to a file with API keys, or listen on 127.0.0.1",
            )

    @property
    def required(self) -> bool:
        """Return whether every call needs credentials; if not, this is development on loopback."""
        return self._required

    @property
    def takes_keys(self) -> bool:
        """Return whether API keys are configured."""
        return self._keys is not None

    def authenticate(self, request: Request) -> Caller:
        """Return the caller of a request.

        On loopback without authentication the parameter user_id or the header X-User-Id names the user. With
        authentication the parameter names nobody, and the header is read from the trusted proxy only. Raise
        Unauthenticated `NO_CREDENTIALS`, `BAD_CREDENTIALS` or `AMBIGUOUS_USER`; Invalid `BAD_USER_ID`;
        PermissionDenied `HOST_NOT_ALLOWED` or `ORIGIN_NOT_ALLOWED`.
        """
        if not self._required or self._hosts:
            self._check_host(request.raw(b"host"))
        origin = request.header(b"origin").lower()
        if origin and (not self._required or request.method not in _SAFE):
            self._check_origin(origin, _host(request.raw(b"host")))
        names = self._names
        names.check_single(request)
        if not self._required:
            named = names.of_header(request)
            return self._user(names.of_query(request) or named or "local")
        names.ignore_query(request)
        if self._by_proxy(request):
            user = names.of_header(request)
            if not user:
                raise Unauthenticated("the header X-User-Id is required from the proxy", reason="NO_CREDENTIALS")
            return self._user(user)
        names.ignore_header(request)
        return self._by_key(request)

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
        return caller.key is None or (self._keys is not None and self._keys.alive(caller.key))

    def _named(self, user: str) -> Caller:
        operator = not self._required or user in self._operators
        return Caller(Principal(self._tenant, user, user, operator=operator), None, True)

    def _by_proxy(self, request: Request) -> bool:
        shown = request.raw(b"x-taskplane-proxy-secret")
        return bool(self._proxy_secret and shown) and hmac.compare_digest(shown, self._proxy_secret)

    def _by_key(self, request: Request) -> Caller:
        token = request.header(b"x-api-key")
        if not token:
            scheme, _, credentials = request.header(b"authorization").partition(" ")
            token = credentials.strip() if scheme.lower() == "bearer" else ""
        if not token or self._keys is None:
            raise Unauthenticated(
                "this call needs an API key",
                reason="NO_CREDENTIALS",
                suggestion="send Authorization: Bearer <id>.<secret>, or X-API-Key",
            )
        key = self._keys.find(token)
        principal = Principal(key.tenant, key.owner, key.owner, operator=key.may_operate)
        return Caller(principal, key, key.may_write, key.may_read)

    def _host_allowed(self, shown: bytes) -> None:
        host = _host(shown)
        name = _split(f"//{host}").hostname or ""
        if not is_loopback(name) and name not in self._hosts and host not in self._hosts:
            raise PermissionDenied(
                f"the host name {name or '(none)'} is not allowed",
                reason="HOST_NOT_ALLOWED",
                suggestion="add the name to TASKPLANE_GATEWAY_ALLOWED_HOSTS",
            )

    def _check_origin(self, origin: str, host: str) -> None:
        if _split(origin).netloc != host and origin not in self._origins:
            raise PermissionDenied(
                "calls from this origin are not allowed",
                reason="ORIGIN_NOT_ALLOWED",
                suggestion="add the origin to TASKPLANE_GATEWAY_CORS_ORIGINS",
            )


def _host(shown: bytes) -> str:
    return shown.decode("latin-1").strip().lower()


def _split(address: str) -> SplitResult:
    """Return the parts of a URL, all of them empty if it cannot be parsed, so that it matches no list."""
    try:
        return urlsplit(address)
    except ValueError:
        return SplitResult("", "", "", "", "")
