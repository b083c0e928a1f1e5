"""Official clients read every text of an agent: with any characters, split anywhere."""

import asyncio
import json
import random
import re
import sys
import unicodedata
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import Message, Part, Role, SendMessageRequest
from google.protobuf.json_format import MessageToDict
from tests.gateway.plane import Plane, open_all
from tests.support.node import CLIENT, NO_CLIENT, NODE
from tests.support.thorough import THOROUGH

from taskplane.agents.agent import AgentCard, ArtifactChunk, Change, Complete, Say, Text, Turn
from taskplane.api import growing_text
from taskplane.runtime.storable import storable

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Texts in one turn, and number of turns. With THOROUGH there are 5,000 texts.
EACH: Final = 50
TURNS: Final = 100 if THOROUGH else 3
_PARTIAL: Final = "kagent_adk_partial"
# For each message its joined pieces and its whole text; for each artifact its joined pieces.
Answer = tuple[list[tuple[str, str]], list[str]]
Ask = Callable[[int], Awaitable[Answer]]


@cache
def characters() -> dict[str, list[str]]:
    """Return the characters of each category of Unicode. Of the surrogates only low ones are included, so that two of
    them never form a pair."""
    found: dict[str, list[str]] = defaultdict(list)
    for code in range(sys.maxunicode + 1):
        if not 0xD800 <= code < 0xDC00:
            found[unicodedata.category(chr(code))].append(chr(code))
    return found


def texts_of(turn: int) -> list[str]:
    """Return the texts of a turn. Each begins and ends with a letter, since the comparison of a text with its pieces
    ignores white space at the ends."""
    source = random.Random(turn)
    by_category = characters()
    names = sorted(by_category)
    special = "\u2028\u2029\x85\r\n\0\x0b\x0c\x1c\x1d\x1e\ufeff\u200d\U0001f600"
    found: list[str] = []
    for number in range(EACH):
        picked = [source.choice(by_category[source.choice(names)]) for _ in range(source.randint(1, 30))]
        picked += source.choices(special, k=source.randint(0, 3))
        # Every category occurs in some text.
        picked.append(source.choice(by_category[names[number % len(names)]]))
        source.shuffle(picked)
        found.append(f"a{''.join(picked)}z")
    return found


def pieces_of(text: str, source: random.Random) -> list[str]:
    cuts = sorted(source.sample(range(1, len(text)), min(len(text) - 1, source.randint(0, 4))))
    return [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


class Fuzz:
    """An agent that sends the texts of the turn that the message names: each in pieces, then whole, then as an
    artifact."""

    card = AgentCard(name="Fuzz", description="Says texts", version="1")

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        source = random.Random(turn.text)
        for number, text in enumerate(texts_of(int(turn.text))):
            for piece in pieces_of(text, source):
                yield Text(piece)
            yield Say(text)
            await asyncio.sleep(0)
            for index, piece in enumerate(pieces_of(text, source)):
                yield ArtifactChunk(f"a{number}", text=piece, name=text, append=index > 0, metadata={"text": text})
        yield Complete("done")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Plane, None]:
    async with open_all(tmp_path_factory.mktemp("plane"), ("fuzz", Fuzz())) as plane:
        yield plane


def answer(found: list[dict[str, Any]]) -> Answer:
    """Join the texts that a client received, for each message and artifact."""
    growing: dict[str, str] = defaultdict(str)
    whole: dict[str, str] = {}
    artifacts: dict[str, str] = defaultdict(str)
    for one in found:
        if "artifact" in one:
            artifacts[one["artifact"]] += one["text"]
            if text := one["metadata"].get("text"):
                whole[f"{one['artifact']} in metadata"] = text
        elif one["metadata"].get(_PARTIAL):
            growing[one["message"]] += one["text"]
        else:
            whole[one["message"]] = one["text"]
    messages = [(growing[name], text) for name, text in whole.items() if name in growing]
    from_metadata = [whole[f"{name} in metadata"] for name in artifacts]
    assert from_metadata == list(artifacts.values())
    return messages, from_metadata


@asynccontextmanager
async def in_python(plane: Plane, version: str) -> AsyncGenerator[Ask, None]:
    headers = {"A2A-Extensions": growing_text.EXTENSION}
    async with httpx.AsyncClient(timeout=60.0, headers=headers) as http:
        card = await A2ACardResolver(http, plane.gateway.url).get_agent_card()
        offered = [one for one in card.supported_interfaces if one.protocol_version.startswith(version)]
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(offered)
        client = ClientFactory(ClientConfig(streaming=True, httpx_client=http)).create(card)

        async def ask(turn: int) -> Answer:
            message = Message(message_id=uuid4().hex, role=Role.ROLE_USER, parts=[Part(text=str(turn))])
            found: list[dict[str, Any]] = []
            async for event in client.send_message(SendMessageRequest(message=message)):
                one: Any
                if event.HasField("artifact_update"):
                    one = event.artifact_update.artifact
                    name: dict[str, Any] = {"artifact": one.artifact_id}
                elif event.HasField("status_update") and event.status_update.status.HasField("message"):
                    one = event.status_update.status.message
                    name = {"message": one.message_id}
                else:
                    continue
                text = "".join(part.text for part in one.parts)
                found.append({**name, "text": text, "metadata": MessageToDict(one.metadata)})
            return answer(found)

        yield ask


@asynccontextmanager
async def in_javascript(plane: Plane, version: str) -> AsyncGenerator[Ask, None]:
    process = await asyncio.create_subprocess_exec(
        *(NODE, str(CLIENT / "client.mjs"), plane.gateway.url, version, growing_text.EXTENSION),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=64 * 1024 * 1024,
    )
    assert process.stdin is not None and process.stdout is not None
    sent, received = process.stdin, process.stdout

    async def ask(turn: int) -> Answer:
        sent.write(f"{turn}\n".encode())
        await sent.drain()
        return answer(json.loads(await received.readline()))

    try:
        yield ask
    finally:
        sent.close()
        await process.wait()


_CLIENTS = [
    pytest.param(in_python, id="python"),
    pytest.param(in_javascript, id="javascript", marks=pytest.mark.skipif(bool(NO_CLIENT), reason=NO_CLIENT)),
]


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("open_client", _CLIENTS)
async def test_the_official_client_reads_every_text_of_the_agent(plane: Plane, open_client: Any, version: str) -> None:
    """T1, P3: in pieces and whole, in messages, artifacts and metadata."""
    seen = ""
    async with open_client(plane, version) as ask:
        for turn in range(TURNS):
            texts = [storable(text) for text in texts_of(turn)]
            messages, artifacts = await ask(turn)
            assert artifacts == texts
            assert messages == [(text, text) for text in texts]
            seen += "".join(texts)
    assert {unicodedata.category(one) for one in set(seen)} >= {*characters()} - {"Cs"}
    assert re.search("[\u2028\u2029\x85]", seen)
