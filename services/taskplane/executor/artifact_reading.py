"""Whole artifacts of tasks for a turn, of any size, read from the task store in pieces."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.runtime.json_values import to_dict


async def read_artifact(
    store: TaskStoreStub, task_id: str, artifact_id: str, having: Mapping[str, Any]
) -> a2a.Artifact | None:
    """Return the newest version of an artifact whose metadata has the values `having`; None if no version has them.

    NotFound: the task or the artifact does not exist.
    """
    version = 0
    while True:
        call = store.ReadArtifact(pb.ReadArtifactRequest(task_id=task_id, artifact_id=artifact_id, version=version))
        try:
            responses = aiter(call)
            head = (await anext(responses)).head
            metadata = to_dict(head.artifact.metadata)
            if all(metadata.get(name) == value for name, value in having.items()):
                return await _whole(head.artifact, responses)
        finally:
            call.cancel()
        if head.version <= 1:
            return None
        version = head.version - 1


async def _whole(artifact: a2a.Artifact, responses: AsyncIterator[pb.ReadArtifactResponse]) -> a2a.Artifact:
    contents: list[list[bytes]] = []
    async for response in responses:
        for piece in response.pieces.pieces:
            if piece.HasField("part"):
                artifact.parts.append(piece.part)
                contents.append([])
            contents[-1].append(piece.data)
    for part, pieces in zip(artifact.parts, contents, strict=True):
        content = b"".join(pieces)
        match part.WhichOneof("content"):
            case "text":
                part.text = content.decode()
            case "url":
                part.url = content.decode()
            case "data":
                part.data.ParseFromString(content)
            case _:
                part.raw = content
    return artifact
