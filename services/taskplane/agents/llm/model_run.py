"""Run a pydantic-ai agent and yield its output as changes. All runs of pydantic-ai agents use this loop."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.messages import ModelMessage
from pydantic_ai.run import AgentRun

from taskplane.agents.agent import Change, Turn, Usage
from taskplane.agents.llm.events import Events, figures
from taskplane.agents.llm.failures import check_whole, readable
from taskplane.agents.llm.history import prompt
from taskplane.agents.llm.open_streams import OpenStreams


class ModelRun:
    """A run over `messages`; the last one is the user's. After the run, `output` and `new_messages` are set."""

    def __init__(
        self,
        agent: AbstractAgent[Any, Any],
        messages: Sequence[ModelMessage],
        events: Events,
        *,
        incoming: Turn | None = None,
        **options: Any,
    ) -> None:
        """`incoming`: the turn, if messages that the user sends during the run shall be read. They are read before each
        model call but the first, and after the last answer.

        `options`: passed to `Agent.iter`.
        """
        self.output: Any = None
        self.new_messages: list[ModelMessage] = []
        self._agent = agent
        self._given = messages
        self._events = events
        self._incoming = incoming
        self._options = options

    async def changes(self) -> AsyncGenerator[Change, None]:
        """Yield the changes of the run. AgentError: the model failed."""
        streams = OpenStreams()
        options: dict[str, Any] = {**self._options, "capabilities": [*self._options.get("capabilities", ()), streams]}
        try:
            async with self._agent.iter(None, message_history=self._given, **options) as run:
                async with aclosing(self._steps(run)) as steps:
                    async for change in steps:
                        yield change
                self.new_messages = run.new_messages()
                self.output = run.result.output if run.result is not None else None
        except Exception as error:
            failure = readable(error, begun=self._events.begun)
            if failure is error:
                raise
            raise failure from error
        finally:
            await streams.close()

    async def _steps(self, run: AgentRun[Any, Any]) -> AsyncGenerator[Change, None]:
        first = True
        async for node in run:
            if Agent.is_model_request_node(node):
                if not first:
                    await self._read(run)
                first = self._events.begun = False
                async with node.stream(run.ctx) as stream:
                    async for event in stream:
                        for change in self._events.of(event):
                            yield change
                    for change in self._events.end_answer():
                        yield change
            elif Agent.is_call_tools_node(node):
                yield Usage(figures(node.model_response.usage))
                check_whole(run.ctx.deps.model, node.model_response)
                if not node.model_response.tool_calls:
                    await self._read(run)
                async with node.stream(run.ctx) as results:
                    async for event in results:
                        for change in self._events.of(event):
                            yield change

    async def _read(self, run: AgentRun[Any, Any]) -> None:
        """Give further messages of the user to the next model call. After the last answer they cause another call."""
        if self._incoming is not None:
            for message in await self._incoming.incoming():
                given = prompt(message)
                run.enqueue(*([given] if isinstance(given, str) else given))
