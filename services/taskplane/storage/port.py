"""The interface of an open database, the same for every engine.

A store function is a plain function over a SQLAlchemy Core `Connection`: it neither begins, commits nor awaits.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Concatenate, Literal, ParamSpec, TypeVar

from sqlalchemy import Connection

from taskplane.runtime.errors import Unavailable
from taskplane.storage.dialects import Dialect

P = ParamSpec("P")
T = TypeVar("T")
Durability = Literal["full", "relaxed"]
SqliteDurability = Durability | Literal["none"]


class Engine(ABC):
    """An open database. Any number of tasks of one event loop may use it; no method blocks the loop."""

    dialect: Dialect
    url: str
    """Without its password."""
    writers: int
    """How many transactions may write at once; 1 on SQLite."""

    def __repr__(self) -> str:
        return f"<Engine {self.url}>"

    @abstractmethod
    async def write(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `fn(connection, ...)` in one transaction; return when it is committed and, with full durability, synced.

        On SQLite transactions run one after the other, in the order of the calls. On PostgreSQL `fn` may run again
        from the beginning (at most three times) after a serialization failure, a deadlock or the loss of a connection
        before COMMIT, so it must have no effect but through its connection.

        An exception of `fn` rolls back and is raised. IntegrityError: a constraint or trigger refused. Unavailable: the
        database cannot be reached or work; whether the transaction took effect may be unknown. DataLoss: damage was
        found in it, now or before. Conflict: it lost against others three times. A caller that is cancelled does not
        know whether it took effect.
        """

    @abstractmethod
    async def read(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `fn(connection, ...)` on one snapshot of committed data; every attempt to write is refused.

        When the caller is cancelled, the running statement is interrupted. `fn` may run again after the loss of a
        connection. Unavailable: the database cannot be reached, or every connection was busy for 5 s. DataLoss: the
        requested data is damaged.
        """

    @abstractmethod
    async def probe(self) -> None:
        """Return within 5 s if transactions that write can be made now; raise Unavailable or DataLoss otherwise."""

    def on_renewal(self, tell: Callable[[], None]) -> None:  # noqa: B027 - SQLite has nowhere else to go
        """Call `tell` on the event loop whenever all connections are replaced, as after a failover."""


def closing() -> Unavailable:
    """Return the error of a call to a database that is being closed."""
    return Unavailable("this process is closing its database", reason="CLOSING", retry_after=1.0)
