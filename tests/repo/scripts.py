"""The answers of the models for a reader who follows the pages. Each answer depends on the request alone."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Event, Thread
from typing import Any, Final

from tests.support.scripted_gemini import call, gemini, words
from tests.support.scripted_model import Answer, Request, calls, open_model, text

_LONG: Final = "# Bridges\nThey lead over water.\n"


def _openai(request: Request) -> Answer:
    """Answers, writes a report and a shorter one, and calls the tools of a shop."""
    asked = next(said for role, said in reversed(request.said) if role == "user")
    returned = request.said[-1][1] if request.said[-1][0] == "tool" else ""
    if "createTask" in request.tools and "days" not in asked:
        return calls(("createTask", {"reason": "there is work to do"}))
    if returned and "artifact was made" in returned:
        return text("The report is shorter now." if "shorter" in asked else "The report is done.")
    if returned and "created" not in returned:
        return text(f"There are {returned} bolts." if returned.isdigit() else returned)
    match asked.split():
        case ["How", "many", "days", *_]:
            return text("It has 28 days, ", "and 29 in a leap year.")
        case ["How", "many", "bolts", *_]:
            return calls(("stock", {"item": "bolts"}))
        case ["Order", *_]:
            return calls(("order", {"item": "nuts", "pieces": 10}))
        case ["Write", *_]:
            return _report(_LONG)
        case _:
            assert any(_LONG.strip() in said for _, said in request.said), request.said
            return _report("# Bridges\n")


def _report(content: str) -> Answer:
    return calls(("createArtifact", {"name": "Bridges", "description": "A report.", "content": content}))


def _gemini(contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keeps notes by its tools, and asks if a request is unclear."""
    last = contents[-1]["parts"][-1]
    if "functionResponse" in last:
        match last["functionResponse"]["name"], last["functionResponse"]["response"]:
            case "ask", {"result": said}:
                return [call("note", text=said[:1].lower() + said[1:].rstrip("."))]
            case "note", _:
                return [words("I noted "), words("it.")]
            case "publish", {"version": 0}:
                return [words("notes.md is saved.")]
            case other:
                raise AssertionError(other)
    match last["text"].split(maxsplit=2):
        case ["Note", "that", what]:
            return [call("note", text=what.rstrip("."))]
        case ["Save", *_]:
            return [call("publish", name="notes.md")]
        case _:
            return [call("ask", question="What shall I note?")]


@contextmanager
def openai() -> Generator[dict[str, str]]:
    """The variables by which a scripted model is reached; it is served by a thread."""
    started, stopping = Event(), asyncio.Event()
    found: list[tuple[str, asyncio.AbstractEventLoop]] = []

    async def serve() -> None:
        async with open_model(_openai) as model:
            found.append((model.url, asyncio.get_running_loop()))
            started.set()
            await stopping.wait()

    thread = Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    started.wait()
    ((url, loop),) = found
    try:
        yield {"OPENAI_BASE_URL": url}
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join()


@contextmanager
def google() -> Generator[dict[str, str]]:
    """The variables by which a scripted model of the Gemini API is reached."""
    with gemini(_gemini) as url:
        yield {"GOOGLE_GEMINI_BASE_URL": url}


MODELS: Final[dict[str, Callable[[], AbstractContextManager[dict[str, str]]]]] = {
    "llm": openai,
    "pydantic-ai": openai,
    "adk": google,
}


def model_of(page: str) -> AbstractContextManager[dict[str, str]]:
    """The model of a page, if it has one, and the variables by which it is reached."""
    made = MODELS.get(page)
    return made() if made is not None else nullcontext({})
