"""Generated sessions: three routes show each of them like a naive reference, and like each other, also after crashes.
HISTORIES in the environment is the number per engine, and HISTORY_SEED the seed."""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.support.postgres import Cluster
from tests.system.chronicle import Chronicle, Turn
from tests.system.plane import STEADY, Plane, running
from tests.system.wire import Json, call, client, data, result, send, text_message

pytestmark = pytest.mark.more

HISTORIES = int(os.environ.get("HISTORIES", "12"))
ABREAST = 6
STEPS = 9
INVOCATION = "kagent_invocation_id"
BEFORE = "kagent_rewind_before_invocation_id"


class Session:
    """One generated session: its steps, and its expected content."""

    def __init__(self, http: httpx.AsyncClient, rng: random.Random) -> None:
        self.http = http
        self.id = uuid4().hex
        self.chronicle = Chronicle()
        self.documents: set[str] = set()
        self.steps: list[str] = []
        self._rng = rng
        self._words = 0
        self._named: set[str] = set()

    def may_begin_a_rewind(self) -> list[Turn]:
        """Returns the turns with names that a client knows, without documents that name none."""
        documents = [turn for turn in self.chronicle.documents if turn.invocation in self._named]
        return [*self.chronicle.turns, *documents]

    def word(self) -> str:
        self._words += 1
        return f"w{self._words}"

    async def step(self) -> None:
        """Does one thing that a user, a second client or an external runtime may do."""
        turns = self.chronicle.turns
        choices: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (5, self._echo),
            (2, self._direct),
            (2, self._ask),
            (2, self._parallel),
        ]
        if self.chronicle.paused():
            choices.append((4, self._answer))
        if turns:
            choices += [(4, self._rewind), (2, self._undo), (1, self._push), (1, self._fork), (1, self._unknown)]
            choices.append((1, self._document))
        weights, acts = [weight for weight, _ in choices], [act for _, act in choices]
        await self._rng.choices(acts, weights)[0]()

    async def _echo(self) -> None:
        word = self.word()
        self.steps.append(f"echo {word}")
        self._take((await send(self.http, f"echo {word}", contextId=self.id))["task"])

    async def _direct(self) -> None:
        word = self.word()
        self.steps.append(f"message {word}")
        answer = (await send(self.http, f"message {word}", contextId=self.id))["message"]
        self.chronicle.turn(answer["metadata"][INVOCATION], "", [f"message {word}", word])

    async def _ask(self) -> None:
        word = self.word()
        self.steps.append(f"ask {word}?")
        self._take((await send(self.http, f"ask {word}?", contextId=self.id))["task"])

    async def _answer(self) -> None:
        task_id = self._rng.choice(self.chronicle.paused())
        word = self.word()
        self.steps.append(f"answer {word} to {task_id}")
        task = (await send(self.http, word, contextId=self.id, taskId=task_id))["task"]
        invocations = _invocations(task)
        last = invocations[-1][0]
        self.chronicle.more(last, task_id, [text for name, text in invocations if name == last])

    async def _parallel(self) -> None:
        words = [self.word(), self.word()]
        self.steps.append(f"at once {words}")
        answers = await asyncio.gather(*[send(self.http, f"echo {word}", contextId=self.id) for word in words])
        seen = [message["metadata"][INVOCATION] for message in await self._own()]
        for answer in sorted(answers, key=lambda one: seen.index(_invocations(one["task"])[0][0])):
            self._take(answer["task"])

    async def _rewind(self) -> None:
        turn = self._rng.choice(self.may_begin_a_rewind())
        again = self._rng.random() < 0.3
        word = self.word()
        self.steps.append(f"rewind before {turn.texts[0]!r}" + (f", then echo {word}" if again else ""))
        parts = [{"text": f"echo {word}"}] if again else [{"text": ""}]
        said = text_message("", contextId=self.id, metadata={BEFORE: turn.invocation})
        task = (await result(self.http, "SendMessage", {"message": {**said, "parts": parts}}))["task"]
        self.chronicle.rewind(turn.invocation)
        if again:
            self._take(task)
        else:
            assert (task["id"], task["status"]["state"]) == (self.id, "TASK_STATE_COMPLETED")
            assert self._without_documents(task.get("history", [])) == self.chronicle.texts

    async def _undo(self) -> None:
        self.steps.append("undo")
        answer = await self.http.post(f"/api/sessions/{self.id}/undo_rewind")
        why_not = self.chronicle.may_undo()
        assert answer.json().get("code", "") == why_not, (answer.text, self.steps)
        if not why_not:
            self.chronicle.undo()
            assert self._without_documents(answer.json()["data"]["messages"]) == self.chronicle.texts

    async def _push(self) -> None:
        """Some of the turns, or parts of them."""
        kept: list[Turn] = []
        messages: list[Json] = []
        left = iter(await self._own())
        for turn in self.chronicle.turns:
            whole = self._rng.random() < 0.7
            said = [message for _, message in zip(turn.texts, left, strict=False)]
            said = [message for message in said if whole or self._rng.random() < 0.6]
            if said and self._rng.random() < 0.6:
                kept.append(Turn(turn.invocation, [_text(message) for message in said]))
                messages += said
        for turn in self.chronicle.documents:
            if turn.invocation in self._named and self._rng.random() < 0.5:
                kept.append(turn)
                messages += [one for one in await _effective(self.http, self.id) if _text(one) in turn.texts]
        self.steps.append(f"push {[turn.texts for turn in kept]}")
        answer = await self.http.put(f"/api/sessions/{self.id}/effective_history", json={"messages": messages})
        assert answer.status_code == 200, answer.text
        self.chronicle.push(kept)

    async def _fork(self) -> None:
        turn = self._rng.choice(self.chronicle.turns)
        self.steps.append(f"fork before {turn.texts[0]!r}")
        answer = await self.http.post(f"/api/sessions/{self.id}/fork", json={"before": turn.invocation})
        assert answer.status_code == 201, answer.text
        forked = Session(self.http, self._rng)
        forked.id, forked.chronicle = answer.json()["data"]["id"], self.chronicle.fork(turn.invocation)
        forked.steps = [*self.steps, "in the fork"]
        await forked.check()
        await forked._echo()
        await forked.check()

    async def _unknown(self) -> None:
        self.steps.append("rewind before an unknown invocation")
        said = text_message("", contextId=self.id, metadata={BEFORE: "unknown"})
        task = (await result(self.http, "SendMessage", {"message": said}))["task"]
        assert task["status"]["state"] == "TASK_STATE_FAILED"

    async def _document(self) -> None:
        word = self.word()
        message: Json = {
            "kind": "message",
            "messageId": word,
            "role": "agent",
            "parts": [{"kind": "text", "text": word}],
        }
        task: Json = {
            "id": uuid4().hex,
            "contextId": self.id,
            "status": {"state": "completed"},
            "history": [message],
        }
        named = self._rng.random() < 0.5
        invocation = f"document-{uuid4().hex}" if named else ""
        if named:
            message["metadata"] = {INVOCATION: invocation}
        self.steps.append(f"document {word}" + (" that names its turn" if named else ""))
        assert (await self.http.post("/api/tasks", json=task)).status_code == 201
        self.chronicle.document(invocation or task["id"], [word])
        self.documents.add(word)
        if named:
            self._named.add(invocation)

    def _take(self, task: Json) -> None:
        said = _invocations(task)
        self.chronicle.turn(said[0][0], task["id"], [text for _, text in said])

    async def _own(self) -> list[Json]:
        """Returns the effective history without documents."""
        return [one for one in await _effective(self.http, self.id) if _text(one) not in self.documents]

    def _without_documents(self, messages: list[Json]) -> list[str]:
        return [text for text in map(_text, messages) if text not in self.documents]

    async def check(self) -> None:
        """The three routes agree with the reference."""
        shown = self.chronicle.texts
        effective = await _effective(self.http, self.id)
        assert self._without_documents(effective) == shown, self.steps
        flat = _flatten(await data(self.http, f"/api/sessions/{self.id}/tasks") or [])
        paged = await _paged(self.http, self.id)
        assert [message["messageId"] for message in paged] == [message["messageId"] for message in flat], self.steps
        assert {one["messageId"]: one for one in effective} == {one["messageId"]: one for one in flat}, self.steps
        told = [_text(message) for message in flat]
        assert [text for text in told if text not in self.documents] == shown, self.steps
        documents = [text for turn in self.chronicle.documents for text in turn.texts]
        assert sorted(text for text in told if text in self.documents) == sorted(documents), self.steps


def _text(message: Json) -> str:
    return "".join(part.get("text", "") for part in message["parts"])


def _invocations(task: Json) -> list[tuple[str, str]]:
    """Returns invocation and text of each message of a task, including the message of its status."""
    messages: list[Json] = [*task.get("history", [])]
    last = task["status"].get("message")
    if last and all(last["messageId"] != each["messageId"] for each in messages):
        messages.append(last)
    return [(message["metadata"][INVOCATION], _text(message)) for message in messages]


def _flatten(tasks: list[Json]) -> list[Json]:
    """Flattens tasks as a client does (T6), without repeated ids."""
    kept: dict[str, Json] = {}
    for task in tasks:
        for message in task["history"]:
            kept.setdefault(message["messageId"], message)
    return list(kept.values())


async def _effective(http: httpx.AsyncClient, session_id: str) -> list[Json]:
    messages: list[Json] = (await data(http, f"/api/sessions/{session_id}/effective_history"))["messages"]
    ids = [message["messageId"] for message in messages]
    assert len(set(ids)) == len(ids)
    return messages


async def _paged(http: httpx.AsyncClient, session_id: str) -> list[Json]:
    """`/messages`, page by page from the newest."""
    messages: list[Json] = []
    before: Any = ""
    while before is not None:
        query = f"?limit=3&before={before}" if before else "?limit=3"
        page = await data(http, f"/api/sessions/{session_id}/messages{query}")
        messages = [*page["messages"], *messages]
        before = page["before"]
    return messages


@pytest.mark.timeout(120 + 5 * HISTORIES)
async def test_generated_sessions_equal_a_naive_reference(server: Cluster | None, tmp_path: Path) -> None:
    """R3, R4, R5, R6, R7, R8, T6: after any mixture of turns, rewinds, undos, pushes, forks and crashes."""
    seed = int(os.environ.get("HISTORY_SEED", random.randrange(2**32)))
    print(f"seed {seed}")
    rng = random.Random(seed)
    wanted = HISTORIES if server is None or HISTORIES > 30 else HISTORIES // 3
    async with running("one", tmp_path, STEADY, server=server) as plane, client(plane.url) as http:
        for start in range(0, wanted, ABREAST):
            sessions = [Session(http, random.Random(rng.random())) for _ in range(min(ABREAST, wanted - start))]
            await asyncio.gather(*map(_live, sessions))
            if rng.random() < 0.3:
                await _crash(plane, sessions)


async def _live(session: Session) -> None:
    for _ in range(STEPS):
        await session.step()
    await session.check()


async def _crash(plane: Plane, sessions: list[Session]) -> None:
    """Kills the process while each session is being rewound. Afterwards each is rewound, or not."""
    chosen = [(one, random.choice(one.chronicle.turns)) for one in sessions if one.chronicle.turns]

    async def rewind(session: Session, turn: Turn) -> None:
        said = text_message("", contextId=session.id, metadata={BEFORE: turn.invocation})
        await call(session.http, "SendMessage", {"message": said})

    going = [asyncio.create_task(rewind(session, turn)) for session, turn in chosen]
    await asyncio.wait(going, return_when=asyncio.FIRST_COMPLETED)
    await plane.kill("dev")
    await asyncio.gather(*going, return_exceptions=True)
    await plane.start("dev")
    for session, turn in chosen:
        session.steps.append(f"killed while rewinding before {turn.texts[0]!r}")
        # The next request finishes an interrupted rewind.
        shown = [_text(message) for message in await session._own()]  # pyright: ignore[reportPrivateUsage]
        if shown != session.chronicle.texts:
            session.chronicle.rewind(turn.invocation)
        await session._echo()  # pyright: ignore[reportPrivateUsage]
        await session.check()
