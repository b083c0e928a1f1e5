"""The peer with a model behind it: the agent of `bench.model_agent` on a server of the official A2A SDK.

python -m bench.model_peer PORT memory|sqlite [FILE]
"""

import sys

from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

from bench import peer
from bench.model_agent import agent


class Streaming(AgentExecutor):
    """Each piece of the model's text is a chunk of an artifact, as the SDK has it."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Run the agent on the user's words."""
        assert context.message is not None
        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        begun = False
        async with agent.run_stream_events(context.get_user_input()) as events:
            async for event in events:
                text = ""
                if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                    text = event.part.content
                elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                    text = event.delta.content_delta
                if text:
                    await updater.add_artifact([Part(text=text)], artifact_id="answer", append=begun)
                    begun = True
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Never asked for here."""
        raise NotImplementedError


if __name__ == "__main__":
    peer.main(sys.argv, Streaming())
