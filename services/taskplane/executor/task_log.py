"""Events of a task, read from the task store in pages."""

from collections.abc import AsyncGenerator, Sequence
from typing import Final

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub

PAGE: Final = 1000


async def events(
    store: TaskStoreStub,
    task_id: str,
    *,
    after: int,
    kinds: "Sequence[pb.EventKind.ValueType]" = (),
    speaking: bool = False,
) -> AsyncGenerator[pb.ListEventsResponse]:
    """Yield pages of the task's events after a generation, oldest first. A page that is not full is the last one."""
    while True:
        page = await store.ListEvents(
            pb.ListEventsRequest(task_id=task_id, kinds=kinds, speaking=speaking, after_generation=after, limit=PAGE)
        )
        yield page
        if len(page.events) < PAGE:
            return
        after = page.events[-1].generation
