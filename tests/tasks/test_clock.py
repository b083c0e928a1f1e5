"""The clock of leases, asked by several at once."""

from collections.abc import Callable

from sqlalchemy import Connection, create_engine
from sqlalchemy.pool import NullPool

from taskplane.storage.dialects import Sqlite
from taskplane.tasks.sql.clock import LeaseClock


class Slow(Sqlite):
    """A database that answers late: something happens between its reading of the clock and the answer."""

    happens: Callable[[], object] | None = None

    def now(self, conn: Connection) -> int:
        """See `Dialect.now`."""
        read = super().now(conn)
        if self.happens is not None:
            happens, self.happens = self.happens, None
            happens()
        return read


def test_an_answer_that_comes_late_does_not_set_the_clock_back() -> None:
    """C8: a time that another thread got before is never in the future."""
    told: list[int] = []

    def ask() -> None:
        told.append(clock.now(conn))

    dialect = Slow()
    clock = LeaseClock(dialect)
    with create_engine("sqlite://", poolclass=NullPool).connect() as conn:
        dialect.happens = ask
        ask()
    told.append(clock.carried() or 0)
    assert len(told) == 3 and told == sorted(told)
