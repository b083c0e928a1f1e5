"""The history of a turn: the entries that are read, and the messages that an agent gets."""

from collections.abc import AsyncIterator
from typing import Any

from tests.executor.plane import ANN, BOB, Plane, Stores, open_plane, text
from tests.executor.scripted import Scripted

from taskplane.agents.agent import Change, Complete, Turn
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.runtime.principal import Principal

KEEP: dict[str, Any] = {"context_id": "c"}


async def _answer(turn: Turn) -> AsyncIterator[Change]:
    yield Complete(f"answer to {turn.text}")


def history_of_last_turn(agent: Scripted) -> list[str]:
    """Returns the history of the agent's last turn."""
    return [text(message) for message in agent.turns[-1].history]


class Reading:
    """The readings of histories, as an executor asks for them."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._asked: list[sessions.ListEntriesRequest] = []
        stores.channel.before["ListEntries"] = self._note

    async def _note(self, request: Any) -> None:
        asked = sessions.ListEntriesRequest()
        asked.CopyFrom(request)
        if asked.effective:
            self._asked.append(asked)

    async def last(self) -> sessions.ListEntriesResponse:
        """Return the answer to the last of them, asked once more."""
        return await self._stores.sessions().ListEntries(self._asked[-1])


async def test_a_further_turn_reads_only_new_entries(stores: Stores) -> None:
    """R5: entries that the executor has read are not sent again, and its agent gets all of them."""
    agent, reading = Scripted(_answer), Reading(stores)
    async with open_plane(stores, ("a", agent)) as plane:
        for n in range(40):
            await plane.run(f"m{n}", **KEEP)
        said = [words for n in range(39) for words in (f"m{n}", f"answer to m{n}")]
        assert history_of_last_turn(agent) == said
        # The last reading had the message of its own turn, too; now there is the answer besides.
        answer = await reading.last()
        assert [text(entry.message) for entry in answer.entries] == ["answer to m38", "m39", "answer to m39"]
        assert answer.unchanged == 77


async def test_a_turn_after_a_rewind_has_the_history_before_it(stores: Stores) -> None:
    """R3, R8: cut messages are in no later history, and an undo restores them."""
    agent = Scripted(_answer)
    async with open_plane(stores, ("a", agent)) as plane:
        tasks = [await plane.run(f"m{n}", **KEEP) for n in range(3)]
        invocation = tasks[1].history[0].metadata.fields["kagent_invocation_id"].string_value
        await stores.sessions().Rewind(
            sessions.RewindRequest(context_id="c", before_invocation_id=invocation, id="rewind")
        )
        assert await history_of(plane, agent, "again") == ["m0", "answer to m0"]
        assert await history_of(plane, agent, "more") == ["m0", "answer to m0", "again", "answer to again"]


async def test_a_session_created_again_under_its_id_has_no_earlier_history(stores: Stores) -> None:
    """R5, S4: sessions of two owners under one id share no history either."""
    agent = Scripted(_answer)
    async with open_plane(stores, ("a", agent)) as plane:
        for words in ("one", "two"):
            await plane.run(words, **KEEP)
        assert await history_of(plane, agent, "three", who=BOB) == []
        assert await history_of(plane, agent, "four", who=BOB) == ["three", "answer to three"]
        await stores.sessions(ANN).DeleteSession(sessions.DeleteSessionRequest(context_id="c"))
        for words in ("five", "six"):
            await plane.run(words, **KEEP)
        assert history_of_last_turn(agent) == ["five", "answer to five"]


async def test_without_a_cache_histories_are_the_same(stores: Stores) -> None:
    """R5: each is read whole then."""
    agent, reading = Scripted(_answer), Reading(stores)
    async with open_plane(stores, ("a", agent), history_cache_bytes=0) as plane:
        for words in ("one", "two", "three"):
            await plane.run(words, **KEEP)
        assert history_of_last_turn(agent) == ["one", "answer to one", "two", "answer to two"]
        assert (await reading.last()).unchanged == 0


async def history_of(plane: Plane, agent: Scripted, words: str, who: Principal = ANN) -> list[str]:
    """Sends a message, and returns the history that the agent was given with it."""
    await plane.at_rest(await plane.submit(words, who=who, **KEEP), who)
    return history_of_last_turn(agent)
