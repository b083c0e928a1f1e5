"""Artifacts as they grow from chunks."""

from collections.abc import MutableSequence

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
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
