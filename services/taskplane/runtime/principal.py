"""Who calls. A principal is made by an authenticator, travels in signed metadata and scopes every query."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from taskplane.runtime.errors import Unauthenticated


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller: `owner` in `tenant`, named `actor` in logs and in what it writes.

    `service` marks our own processes, which may act for any owner and call what only executors may.
    """

    tenant: str
    owner: str
    actor: str
    service: bool = False


_current: ContextVar[Principal | None] = ContextVar("taskplane_principal", default=None)


def caller() -> Principal:
    """The principal of the call being served, or the one of `acting_as`. Unauthenticated if there is none."""
    principal = _current.get()
    if principal is None:
        raise Unauthenticated("this call has no principal", reason="NO_PRINCIPAL")
    return principal


def current() -> Principal | None:
    """Like `caller`, but None instead of an error."""
    return _current.get()


def enter(principal: Principal | None) -> None:
    """Makes `principal`, or nobody, the caller for the rest of this context. For the server, once per call."""
    _current.set(principal)


@contextmanager
def acting_as(principal: Principal) -> Generator[None]:
    """Calls made inside, in this task and those it starts, act for `principal`."""
    token = _current.set(principal)
    try:
        yield
    finally:
        _current.reset(token)
