"""Sends a message and prints the events of its task: calling.py HOST:PORT AGENT KEY TEXT."""

import asyncio
import sys

from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode
from grpc.aio import AioRpcError, insecure_channel

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1.executor_pb2 import SubmitRequest
from taskplane.api.executor.v1.executor_pb2_grpc import AgentExecutorStub
from taskplane.api.principal import principal_header
from taskplane.api.tasks.v1.tasks_pb2 import WatchTaskRequest
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub

ENDS = [a2a.TASK_STATE_COMPLETED, a2a.TASK_STATE_FAILED, a2a.TASK_STATE_CANCELED, a2a.TASK_STATE_REJECTED]


async def call(address: str, agent: str, key: str, text: str) -> str:
    """Return the last state of the message's task. A repeat under the same key is the same task."""
    caller = [principal_header("default", "ann")]
    message = a2a.Message(message_id=key, role=a2a.ROLE_USER, parts=[a2a.Part(text=text)])
    request = SubmitRequest(agent=agent, idempotency_key=key, request=a2a.SendMessageRequest(message=message))
    async with insecure_channel(address) as channel:
        answer = await AgentExecutorStub(channel).Submit(request, timeout=10, metadata=caller)
        if answer.HasField("message"):
            return answer.message.parts[0].text
        cursor = answer.task.cursor
        while True:
            watch = WatchTaskRequest(task_id=answer.task.task_id, cursor=cursor, stop_at=ENDS)
            try:
                async for reply in TaskStoreStub(channel).WatchTask(watch, metadata=caller):
                    cursor = reply.snapshot.cursor or cursor
                    for event in reply.events.events:
                        cursor = f"{cursor.rpartition('-')[0]}-{event.generation}"
                        print(event.generation, event.event.WhichOneof("payload"), flush=True)
                    if reply.HasField("end"):
                        return a2a.TaskState.Name(reply.end.record.state)
            except AioRpcError as error:
                if error.code() is not StatusCode.UNAVAILABLE:
                    raise
            await asyncio.sleep(0.5)


try:
    print(asyncio.run(call(*sys.argv[1:])))
except AioRpcError as error:
    details = dict(error.trailing_metadata()).get("grpc-status-details-bin")
    status, info = Status.FromString(details if isinstance(details, bytes) else b""), ErrorInfo()
    if not status.details or not status.details[0].Unpack(info):
        raise
    sys.exit(f"{info.reason}: {status.message}")
