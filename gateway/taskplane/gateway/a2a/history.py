"""The bound that a client sets to the history of a task in its answer."""

from taskplane.api.a2a.v1 import a2a_pb2 as a2a


def bounded(task: a2a.Task, history_length: int | None) -> a2a.Task:
    """Return the task with at most the `history_length` newest messages of its history (None: all), a copy if there are
    more."""
    more = 0 if history_length is None else len(task.history) - history_length
    if more <= 0:
        return task
    copy = a2a.Task()
    copy.CopyFrom(task)
    del copy.history[:more]
    return copy
