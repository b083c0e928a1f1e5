"""Streams of WatchSession: the tasks of a session, then each task that is new, changed or removed."""

import time
from collections.abc import AsyncGenerator, Callable

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.failpoints import afp
from taskplane.storage.bell import Listener
from taskplane.tasks.domain.infos import Info
from taskplane.tasks.domain.task import Scope
from taskplane.tasks.watch.watched import Watched


class SessionStreams:
    """Serves WatchSession calls. `render` makes the message for a task.

    `alone`: no other process writes to this log, so the cached tasks of a watched session are complete.
    """

    def __init__(
        self, watched: Watched, render: Callable[[Info], pb.TaskInfo], *, alone: bool, quiet_after: float = 5.0
    ) -> None:
        self._watched = watched
        self._render = render
        self._alone = alone
        self._quiet_after = quiet_after

    async def stream(self, scope: Scope, context_id: str) -> AsyncGenerator[pb.WatchSessionResponse, None]:
        """Yield the responses of one WatchSession call, in the order of the contract, until the store drains.

        A changed task is reported in its current state. Several changes between two reports are reported once.
        """
        bell = Listener()
        sessions = self._watched.sessions
        session = sessions.enter(scope, context_id, bell)
        try:
            await session.catch_up(anew=not self._alone)
            last_change, infos = session.number, session.infos()
            # Uids of tasks that were never reported to this watcher.
            hidden = {info.task.uid for info in infos if info.task.superseded}
            yield _snapshot([self._render(info) for info in infos if not info.task.superseded])
            sent_at = time.monotonic()
            while not self._watched.draining:
                await afp("watch_session.before_read")
                await session.catch_up()
                changes, last_change = session.changes_after(last_change), session.number
                for uid, info, first, gone in changes:
                    unreported = first or uid in hidden
                    if gone:
                        hidden.discard(uid)
                        if not unreported:
                            yield pb.WatchSessionResponse(removed=info.task.id)
                            sent_at = time.monotonic()
                        continue
                    if unreported and info.task.superseded:
                        hidden.add(uid)
                        continue
                    hidden.discard(uid)
                    shown = self._render(info)
                    yield (
                        pb.WatchSessionResponse(received=shown)
                        if unreported
                        else pb.WatchSessionResponse(changed=shown)
                    )
                    sent_at = time.monotonic()
                quiet = sent_at + self._quiet_after - time.monotonic()
                if quiet <= 0:
                    yield pb.WatchSessionResponse(quiet=pb.Quiet())
                    sent_at = time.monotonic()
                elif self._watched.outage is not None:
                    raise self._watched.outage
                elif not changes:
                    await bell.wait(quiet)
        finally:
            sessions.leave(scope, context_id, bell)


def _snapshot(infos: list[pb.TaskInfo]) -> pb.WatchSessionResponse:
    return pb.WatchSessionResponse(snapshot=pb.TaskInfos(infos=infos))
