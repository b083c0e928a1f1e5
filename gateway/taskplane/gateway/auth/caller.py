"""The caller of a request, and the checks of Host and Origin against pages of other sites."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final
from urllib.parse import SplitResult, urlsplit

from taskplane.gateway.settings import GatewaySettings
from taskplane.runtime.errors import PermissionDenied
from taskplane.runtime.principal import Principal
from taskplane.runtime.validation import is_loopback

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller.

    `scheme` names the scheme that identified it. Only that scheme reads `credential`. `may_read` and `may_write` are
    about the tasks and sessions of the caller.
    """

    principal: Principal
    scheme: str
    credential: object = field(default=None, repr=False)
    may_write: bool = True
    may_read: bool = True

    @property
    def may_operate(self) -> bool:
        """Return whether the caller may see, cancel and delete the tasks of all owners of its tenant."""
        return self.principal.operator

    def check_read(self) -> None:
        """Raise PermissionDenied `OPERATE_ONLY_KEY` unless the caller may read."""
        if not self.may_read:
            raise PermissionDenied('the credentials lack the scope "read"', reason="OPERATE_ONLY_KEY")

    def check_write(self) -> None:
        """Raise PermissionDenied `READ_ONLY_KEY` unless the caller may write."""
        if not self.may_write:
            raise PermissionDenied('the credentials lack the scope "write"', reason="READ_ONLY_KEY")


class BrowserChecks:
    """The checks that keep pages of other sites, and names that are bound to this machine, from calling."""

    def __init__(self, settings: GatewaySettings, *, authenticated: bool) -> None:
        """`authenticated`: every call needs credentials, so that reads are open to all hosts and origins."""
        self._authenticated = authenticated
        self._hosts = frozenset(host.lower() for host in settings.allowed_hosts)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in settings.cors_origins)
        self._check_host = lru_cache(256)(self._host_allowed)

    def check(self, method: str, host: bytes, origin: str) -> None:
        """Raise PermissionDenied `HOST_NOT_ALLOWED` or `ORIGIN_NOT_ALLOWED`."""
        if not self._authenticated or self._hosts:
            self._check_host(host)
        if origin and (not self._authenticated or method not in _SAFE):
            self._check_origin(origin.lower(), _text(host))

    def _host_allowed(self, shown: bytes) -> None:
        host = _text(shown)
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


def _text(host: bytes) -> str:
    return host.decode("latin-1").strip().lower()


def _split(address: str) -> SplitResult:
    """Return the parts of a URL, all of them empty if it cannot be parsed, so that it matches no list."""
    try:
        return urlsplit(address)
    except ValueError:
        return SplitResult("", "", "", "", "")
