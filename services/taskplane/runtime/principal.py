"""The caller. A principal is made by an authenticator, travels in signed metadata and scopes every query."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, NamedTuple

from taskplane.runtime.errors import PermissionDenied, Unauthenticated


class Principal(NamedTuple):
    """A caller: `owner` in `tenant`, named `actor` in logs and in stored data.

    `service` marks processes of the plane, which may act for any owner and call the RPCs of executors. `operator` marks
    a caller that may call the RPCs of operators, for all owners of its tenant. A tuple, because every call looks up
    what belongs to its principal.
    """

    tenant: str
    owner: str
    actor: str
    service: bool = False
    operator: bool = False


_current: ContextVar[Principal | None] = ContextVar("taskplane_principal", default=None)


def caller() -> Principal:
    """Return the principal of the call being served, or the one of `acting_as`. Unauthenticated if there is none."""
    principal = _current.get()
    if principal is None:
        raise Unauthenticated("this call has no principal", reason="NO_PRINCIPAL")
    return principal


current: Final[Callable[[], Principal | None]] = _current.get
"""Return the result of `caller`, but None instead of an error."""

enter: Final[Callable[[Principal | None], object]] = _current.set
"""Make a principal, or nobody, the caller for the rest of this context. For the server, once per call."""


def check_service(rule: str, field: str) -> None:
    """Raise PermissionDenied `SERVICE_ONLY`, saying `rule`, unless the caller is a service; `field` asks for it."""
    if not caller().service:
        raise PermissionDenied(rule, reason="SERVICE_ONLY", fields={field: "is allowed for services only"})


def check_operator(who: Principal) -> None:
    """Raise PermissionDenied `OPERATORS_ONLY` unless the principal may operate."""
    if not who.operator:
        raise PermissionDenied(
            "only operators may call this operation",
            reason="OPERATORS_ONLY",
            suggestion='use an API key with the scope "operate"',
        )


class acting_as:
    """`with acting_as(principal):` calls made inside, in this task and those it starts, act for `principal`."""

    __slots__ = ("_principal", "_token")

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    def __enter__(self) -> None:
        self._token = _current.set(self._principal)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
