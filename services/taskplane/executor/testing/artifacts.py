"""Artifacts as they grow from chunks."""

from collections.abc import Iterator, MutableSequence

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.executor.changes import is_plain_part


def merge_artifact(artifacts: "MutableSequence[a2a.Artifact]", update: a2a.TaskArtifactUpdateEvent) -> None:
    """Add a chunk to the artifacts of a task: a new one, one that replaces another, or more of one."""
    given = update.artifact
    found = next((known for known in artifacts if known.artifact_id == given.artifact_id), None)
    if found is None:
        artifacts.append(given)
    elif not update.append:
        found.CopyFrom(given)
    else:
        for name in ("name", "description"):
            if getattr(given, name):
                setattr(found, name, getattr(given, name))
        for key, value in given.metadata.fields.items():
            found.metadata.fields[key].CopyFrom(value)
        found.extensions.extend(uri for uri in given.extensions if uri not in found.extensions)
        for part in given.parts:
            if found.parts and is_plain_part(part) and is_plain_part(found.parts[-1]):
                found.parts[-1].text += part.text
            else:
                found.parts.append(part)


def in_pieces(artifact: a2a.Artifact) -> Iterator[pb.ReadArtifactResponse]:
    """Yield an artifact as the store sends it, as its only version."""
    head = a2a.Artifact()
    head.CopyFrom(artifact)
    del head.parts[:]
    yield pb.ReadArtifactResponse(head=pb.ArtifactHead(artifact=head, version=1, versions=1))
    for part in artifact.parts:
        empty = a2a.Part()
        empty.CopyFrom(part)
        match part.WhichOneof("content"):
            case "text":
                empty.text, content = "", part.text.encode()
            case "url":
                empty.url, content = "", part.url.encode()
            case "data":
                content = part.data.SerializeToString()
                empty.data.Clear()
            case _:
                empty.raw, content = b"", part.raw
        yield pb.ReadArtifactResponse(pieces=pb.ArtifactPieces(pieces=[pb.ArtifactPiece(part=empty, data=content)]))
