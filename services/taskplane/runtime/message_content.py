"""The content of a message: what tells it from another one under the same id."""

from taskplane.api.a2a.v1 import a2a_pb2 as a2a


def same_content(one: a2a.Message, other: a2a.Message) -> bool:
    """Return whether role, parts and references of two messages are equal; ids and metadata do not count."""
    return (
        one.role == other.role
        and list(one.parts) == list(other.parts)
        and list(one.reference_task_ids) == list(other.reference_task_ids)
    )
