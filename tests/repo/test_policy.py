"""Every RPC has a line in the policy of the service with the RPC, and every line has an RPC."""

import json
from collections.abc import Mapping
from importlib import import_module

import pytest
from google.protobuf.descriptor import FileDescriptor
from tests.repo.tree import ROOT, files

from taskplane.runtime.policy import Access
from taskplane.runtime.service_config import repeatable, service_config

ROOMS = {"tasks", "sessions", "executor"}
# Done twice these are done twice, or refused, or answered otherwise than they were the first time.
NEVER_REPEATED = {
    "tasks": {
        *("CancelTask", "PutTask", "DeleteTask", "CommitImport", "DropImport", "DropAbandonedImports"),
        *("CollectGarbage", "Claim"),
    },
    "sessions": {
        *("CreateSession", "UpdateSession", "DeleteSession", "Rewind", "Undo", "Fork", "CommitImport", "DropImport"),
        *("DropAbandonedImports", "DropRemains", "DeleteUserState"),
    },
    "executor": {"Submit", "DeleteTask", "DeleteSession", "RewindSession", "UndoRewind", "EraseOwner"},
}


def paths(file: FileDescriptor) -> set[str]:
    """The method paths of all services of one file."""
    return {
        f"/{service.full_name}/{method.name}"
        for service in file.services_by_name.values()
        for method in service.methods
    }


def descriptor(room: str) -> FileDescriptor:
    file: FileDescriptor = import_module(f"taskplane.api.{room}.v1.{room}_pb2").DESCRIPTOR
    return file


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_every_rpc_has_a_line_in_the_policy_and_every_line_has_an_rpc(room: str) -> None:
    policy: Mapping[str, Access] = import_module(f"taskplane.{room}.servicer").POLICY
    assert set(policy) == paths(descriptor(room))
    assert all(isinstance(access, Access) for access in policy.values())


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_a_channel_retries_only_calls_that_are_marked_idempotent(room: str) -> None:
    """The mark is in the .proto file of the call."""
    file = descriptor(room)
    methods = [method for service in file.services_by_name.values() for method in service.methods]
    assert {method.name for method in methods if not repeatable(method)} == NEVER_REPEATED[room]
    config = json.loads(service_config(file))
    (named,) = (entry["name"] for entry in config["methodConfig"])
    assert {f"/{each['service']}/{each['method']}" for each in named} == {
        f"/{method.containing_service.full_name}/{method.name}"
        for method in methods
        if method.name not in NEVER_REPEATED[room]
    }


def test_only_the_known_files_define_services() -> None:
    modules = [
        ".".join(path.relative_to(ROOT / "protos").with_suffix("").parts) for path in files("protos", suffix="_pb2.py")
    ]
    serving = {module for module in modules if paths(import_module(module).DESCRIPTOR)}
    assert serving == {f"taskplane.api.{name}.v1.{name}_pb2" for name in ROOMS}
