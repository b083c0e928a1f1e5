"""An executor of the A2A SDK that asks for a name and writes a welcome."""

from a2a.helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part


class Greeter(AgentExecutor):
    """Writes a welcome to whoever says their name."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        name = context.get_user_input()
        if name == "hello":
            await updater.requires_input(new_text_message("Hello. What is your name?"))
            return
        await updater.add_artifact([Part(text=f"Welcome, {name}.\n")], name="welcome.md")
        await updater.complete(new_text_message(f"Nice to meet you, {name}."))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()
