"""The scenarios with an executor of the A2A SDK."""

from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Message, Part, TaskState
from tests.scenarios.script import QUESTION, SECRET, Gate, rerun

from taskplane.agents.agent import Agent


class Scenarios(AgentExecutor):
    """Answers as the script defines, written as an executor for the SDK's own server."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None and context.task_id is not None and context.context_id is not None
        # As the SDK's samples do; a task that exists is sent as it was.
        await event_queue.enqueue_event(context.current_task or new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        word, _, rest = context.get_user_input().partition(" ")
        match word:
            case "hello":
                await updater.complete(new_text_message(f"Hello, {rest}."))
            case "count":
                for text in ("one ", "two ", "three"):
                    await updater.start_work(piece(text))
                await updater.complete(new_text_message("one two three"))
            case "ask":
                await updater.requires_input(new_text_message(QUESTION))
            case "slow":
                await updater.start_work(piece("begun"))
                await Gate(rest).passed()
                await updater.complete(new_text_message("finished"))
            case "fail":
                raise RuntimeError(SECRET)
            case "artifact":
                for number, text in enumerate(("one ", "two ", "three")):
                    if number == 1:
                        await Gate(rest).passed()
                    await updater.add_artifact(
                        [Part(text=text)], "r", name="Report", append=number > 0, last_chunk=number == 2
                    )
                await updater.complete()
            case _:
                assert context.current_task is not None
                assert context.current_task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
                await updater.complete(new_text_message(f"Hello, {context.get_user_input()}."))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None and context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def piece(text: str) -> Message:
    """A piece of a text that grows, as kagent's agents send it."""
    message = new_text_message(text)
    message.metadata["kagent_adk_partial"] = True
    return message


agent = Scenarios


def again() -> Agent:
    return rerun(Scenarios())
