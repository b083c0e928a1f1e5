"""The span of a transaction that carries the operations of several callers."""

import asyncio
from collections.abc import Sequence

import pytest
from sqlalchemy import Connection
from tests.support.spans import ONE, OTHER, install, links_of, parent_of

from taskplane.runtime import tracing
from taskplane.storage.committer import Batch, Committer
from taskplane.storage.engine import Engine


def numbered(conn: Connection, ops: Sequence[int]) -> Batch[int]:
    return Batch(list(ops))


async def test_a_transaction_of_several_callers_is_a_child_of_the_first_and_linked_to_the_others(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = install(monkeypatch)

    async def put(number: int, parent: str) -> int:
        with tracing.within(parent):
            return await committer.submit(number)

    async with Committer(engine, numbered, name="test", key=lambda _: None, size=lambda _: 1) as committer:
        assert list(await asyncio.gather(put(1, ""), put(2, ONE), put(3, OTHER))) == [1, 2, 3]
        assert await put(4, "") == 4
    (commit,) = exported.get_finished_spans()
    assert (commit.name, parent_of(commit), links_of(commit)) == ("commit", int("b" * 16, 16), [int("d" * 16, 16)])


async def test_a_transaction_that_fails_says_so(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    exported = install(monkeypatch)

    def fail(conn: Connection, ops: Sequence[int]) -> Batch[int]:
        raise LookupError("fell over")

    async with Committer(engine, fail, name="test", key=lambda _: None, size=lambda _: 1) as committer:
        with tracing.within(ONE):
            (refused,) = await committer.submit_all([1])
    assert isinstance(refused, Exception)
    (commit,) = exported.get_finished_spans()
    assert not commit.status.is_ok
