"""`taskplane gc` and `taskplane user erase`: deletions by the operator."""

import sys

import grpc

from taskplane.api.executor.v1 import executor_pb2 as executor
from taskplane.api.executor.v1.executor_pb2_grpc import AgentExecutorStub
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.cli import exits
from taskplane.cli.options import Output
from taskplane.cli.report import confirm, nobody_to_ask, note, report_error
from taskplane.cli.rpc import run
from taskplane.runtime import json_lines


def collect(address: str, dry_run: bool, output: Output) -> int:
    """Trim the logs of tasks by the settings of the task store, or print the counts only. Return the exit code."""

    async def command(channel: grpc.aio.Channel) -> int:
        store = TaskStoreStub(channel)
        gone = dict.fromkeys(("tasks", "events", "bytes"), 0)
        more = True
        while more:
            answer = await store.CollectGarbage(tasks.CollectGarbageRequest(dry_run=dry_run))
            for name in gone:
                gone[name] += getattr(answer, name)
            more = answer.more
        words = "would be deleted" if dry_run else "were deleted"
        _tell(
            {**gone, "dry_run": dry_run},
            f"{gone['events']} events ({gone['bytes']} bytes) of {gone['tasks']} tasks {words}",
            output,
        )
        return exits.OK

    return run(address, ("", ""), output, command)


def erase(address: str, tenant: str, owner: str, yes: bool, output: Output) -> int:
    """Delete all data of a user. Without `yes` ask on a terminal, and refuse elsewhere. Return the exit code."""
    question = f'Delete all sessions, tasks and state of "{owner}" (tenant {tenant}) permanently? [y/N] '
    if not yes and not sys.stdin.isatty():
        return report_error(nobody_to_ask(f"{owner} was not erased"), output)
    if not yes and not confirm(question):
        note("Nothing was deleted.")
        return exits.FAILED

    async def command(channel: grpc.aio.Channel) -> int:
        plane = AgentExecutorStub(channel)
        gone = dict.fromkeys(("sessions", "entries", "tasks", "canceled", "events", "state_keys"), 0)
        more = True
        while more:
            answer = await plane.EraseOwner(executor.EraseOwnerRequest())
            for name in gone:
                gone[name] += getattr(answer, name)
            more = answer.more
        _tell(
            {"user": owner, "tenant": tenant, **gone},
            f"{owner} was erased: {gone['sessions']} sessions with {gone['entries']} entries,"
            f" {gone['tasks']} tasks ({gone['canceled']} canceled) with {gone['events']} events,"
            f" {gone['state_keys']} keys of state",
            output,
        )
        return exits.OK

    return run(address, (tenant, owner), output, command)


def _tell(numbers: dict[str, object], words: str, output: Output) -> None:
    print(words if output == "text" else json_lines.encode_text(numbers))
