"""Plain functions as agents: from the text of a message to an answer."""

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing, closing
from typing import Any, cast

from taskplane.agents.adapters.cards import card, first_paragraph
from taskplane.agents.agent import Agent, Change, Complete, Message, Text, Turn


def adapt(found: Callable[..., Any], name: str) -> Agent:
    """Return the agent that calls a function of one parameter, the text of the message, or the Turn if annotated so.

    The function returns a str or a Message, which completes the task, a Change, or None. Or it yields strs, the pieces
    of a growing text, and Changes. If it is neither a coroutine nor an async generator, it runs in a thread and may
    block.
    """
    return FunctionAgent(found, name)


class FunctionAgent:
    """A function as an agent."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        described = first_paragraph(function if inspect.isroutine(function) else type(function))
        self.card = card(name, described or f"Answers with the function {name}.")
        self._function = function
        self._is_async = _is_async(function)
        self._takes_turn = _takes_turn(function)

    def run(self, turn: Turn) -> AsyncIterator[Change] | Iterator[Change]:
        """Call the function with the text of the turn. For a function that may block, return a plain iterator: it gets
        a thread."""
        given = turn if self._takes_turn else turn.text
        return self._awaited(given) if self._is_async else self._blocking(given)

    async def _awaited(self, given: Turn | str) -> AsyncGenerator[Change]:
        found = self._function(given)
        if inspect.isawaitable(found):
            found = await found
        if isinstance(found, AsyncGenerator):
            pieces = cast("AsyncGenerator[Any]", found)
            async with aclosing(pieces):
                async for piece in pieces:
                    yield _change(piece)
        else:
            for change in _changes(found):
                yield change

    def _blocking(self, given: Turn | str) -> Generator[Change]:
        found = self._function(given)
        if inspect.iscoroutine(found):
            found.close()
        yield from _changes(found)


def _changes(found: Any) -> Generator[Change]:
    if inspect.isgenerator(found):
        with closing(found):
            for piece in found:
                yield _change(piece)
    elif hasattr(found, "__next__"):
        for piece in found:
            yield _change(piece)
    elif isinstance(found, (str, Message)):
        yield Complete(found)
    elif inspect.isawaitable(found) or hasattr(found, "__anext__"):
        raise TypeError("use `async def` for an agent with an awaitable result")
    elif found is not None:
        yield found


def _change(piece: Any) -> Change:
    return Text(piece) if isinstance(piece, str) else piece


def _is_async(function: Callable[..., Any]) -> bool:
    """Return whether a function is a coroutine or an async generator, or an object with such a `__call__`."""
    called: tuple[object, ...] = (function, getattr(function, "__call__", None))  # noqa: B004 - its type matters
    return any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in called)


def _takes_turn(function: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError:
        # An annotation may name an import for type checkers only.
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return False
    annotation = next(iter(signature.parameters.values())).annotation
    return annotation is Turn or (isinstance(annotation, str) and annotation.rpartition(".")[2] == "Turn")
