"""One watch of a session: its tasks, then each that is new or has changed."""

import time
from collections.abc import AsyncGenerator, Callable

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.failpoints import afp
from taskplane.storage.bell import Listener
from taskplane.tasks.domain.infos import Info
from taskplane.tasks.domain.task import Scope
from taskplane.tasks.watch.watched import Watched


class Following:
    """Serves any number of watchers of any sessions; `render` shows a task.

    `alone`: no other process writes to this log, so that the memory has all tasks of a session.
    """

    def __init__(
        self, watched: Watched, render: Callable[[Info], pb.TaskInfo], *, alone: bool, quiet_after: float = 5.0
    ) -> None:
        self._watched = watched
        self._render = render
        self._alone = alone
        self._quiet_after = quiet_after

    async def stream(self, scope: Scope, context_id: str) -> AsyncGenerator[pb.WatchSessionResponse, None]:
        """Yield the messages of one watch, until the store drains; the contract (`TaskStore.WatchSession`) says which.

        Each task is reported once per change, in its state at that time: two changes meanwhile are reported once.
        """
        bell = Listener()
        sessions = self._watched.sessions
        session = sessions.enter(scope, context_id, bell)
        try:
            await session.catch_up(anew=not self._alone)
            place, infos = session.number, session.infos()
            # Tasks that this watcher was never told of.
            hidden = {info.task.uid for info in infos if info.task.superseded}
            yield _snapshot([self._render(info) for info in infos if not info.task.superseded])
            spoke = time.monotonic()
            while not self._watched.draining:
                await afp("watch_session.before_read")
                await session.catch_up()
                news, place = session.since(place), session.number
                for uid, info, first, gone in news:
                    untold = first or uid in hidden
                    if gone:
                        hidden.discard(uid)
                        if not untold:
                            yield pb.WatchSessionResponse(removed=info.task.id)
                            spoke = time.monotonic()
                        continue
                    if untold and info.task.superseded:
                        hidden.add(uid)
                        continue
                    hidden.discard(uid)
                    shown = self._render(info)
                    yield pb.WatchSessionResponse(received=shown) if untold else pb.WatchSessionResponse(changed=shown)
                    spoke = time.monotonic()
                quiet = spoke + self._quiet_after - time.monotonic()
                if quiet <= 0:
                    yield pb.WatchSessionResponse(quiet=pb.Quiet())
                    spoke = time.monotonic()
                elif self._watched.outage is not None:
                    raise self._watched.outage
                elif not news:
                    await bell.wait(quiet)
        finally:
            sessions.leave(scope, context_id, bell)


def _snapshot(infos: list[pb.TaskInfo]) -> pb.WatchSessionResponse:
    return pb.WatchSessionResponse(snapshot=pb.TaskInfos(infos=infos))
