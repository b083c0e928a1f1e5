"""The translation of the events of ADK's runner to changes."""

import logging
from collections.abc import Iterator
from typing import Any, Final

from google.adk.events.event import Event

from taskplane.agents.adapters.adk.content import json_of, message_of, text_in, visible
from taskplane.agents.agent import Change, Message, Say, Text, ToolCall, ToolResult, Usage
from taskplane.runtime.json_lines import encode_text

log = logging.getLogger(__name__)

_Source = tuple[str, str | None]

# Its arguments have the secrets of the client that authenticates.
_CREDENTIAL: Final = "adk_request_credential"


class Translation:
    """The changes of one run.

    The event that ends a streamed text repeats the whole text. This message is held back until another event follows,
    so that it can be the final message of the task; until then clients see the pieces. Agents that work in parallel
    stream one after the other: messages of other agents follow.
    """

    def __init__(self) -> None:
        # Reasons of failures by author and branch; removed when the author continues.
        self._errors: dict[_Source, str] = {}
        # The last message, if nothing followed it.
        self.last: Message | None = None
        self._is_held = False
        # The result of the newest node of a workflow, if nothing was said after it.
        self._output: Any = None
        # The author and branch of the text that grows, and the events of others that came meanwhile.
        self._streams: _Source | None = None
        self._queue: list[Event] = []

    @property
    def error(self) -> str:
        """Return why the run failed; empty: it did not."""
        return next(iter(self._errors.values()), "")

    @property
    def held(self) -> Message | None:
        """Return the last text, if only its pieces are known so far and nothing followed."""
        return self.last if self._is_held else None

    @property
    def end(self) -> Message | str | None:
        """Return the last word: the last text, or the result of a workflow, as text or JSON."""
        if self.last is not None or self._output is None:
            return self.last
        return self._output if isinstance(self._output, str) else encode_text(self._output)

    def take(self, event: Event) -> Iterator[Change]:
        """Yield the changes for the next event."""
        source = (event.author, event.branch)
        if self._streams not in (None, source):
            self._queue.append(event)
            return
        if event.partial:
            if text := text_in(event.content):
                yield from self._release()
                self._streams = source
                yield Text(text)
            return
        yield from self._whole(event, source)
        yield from self._queued()

    def rest(self) -> Iterator[Change]:
        """Yield the waiting texts when the run is over, but not the `held` one."""
        if self._streams is not None:
            self._errors[self._streams] = "The answer of the model was truncated."
        self._streams = None
        yield from self._queued()

    def _queued(self) -> Iterator[Change]:
        while self._queue and self._streams is None:
            waiting, self._queue = self._queue, []
            for event in waiting:
                yield from self.take(event)

    def _whole(self, event: Event, source: _Source) -> Iterator[Change]:
        streamed = self._streams is not None
        self._streams = None
        if event.error_code or event.error_message:
            log.error("the model of %s ended with %s: %s", event.author, event.error_code, event.error_message)
            # The text of a provider is for the log.
            self._errors[source] = f"The model ended with the error {event.error_code or 'of no code'}."
        elif event.content is not None:
            # It was tried again.
            self._errors.pop(source, None)
        if event.usage_metadata is not None:
            used = event.usage_metadata
            yield Usage(
                {
                    "requests": 1,
                    "input_tokens": used.prompt_token_count or 0,
                    "output_tokens": (used.candidates_token_count or 0) + (used.thoughts_token_count or 0),
                }
            )
        if event.output is not None:
            self._output = json_of(event).get("output")
        message = message_of(event.content)
        if message is not None:
            yield from self._release()
            if not streamed:
                message.message_id = event.id
                yield Say(message)
            self.last, self._is_held = message, streamed
        for part in visible(event.content):
            if (call := part.function_call) is not None and call.name != _CREDENTIAL:
                yield from self._release()
                yield ToolCall(call.id or "", call.name or "", json_of(call).get("args", {}))
            elif (response := part.function_response) is not None:
                yield from self._release()
                yield ToolResult(response.id or "", response.name or "", json_of(response).get("response", {}))

    def _release(self) -> Iterator[Change]:
        """Say the text that was held back: another text follows."""
        if self._is_held and self.last is not None:
            yield Say(self.last)
        self.last, self._is_held = None, False
