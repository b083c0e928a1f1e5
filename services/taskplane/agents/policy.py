"""The policy of an agent about its tasks. `taskplane.agents.agent` has it, too."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal, get_args

from taskplane.runtime.bounds import Duration, Range, broken_rules

Isolation = Literal["none", "thread", "process"]
ISOLATIONS: Final[tuple[str, ...]] = get_args(Isolation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules of a task: its executor is lost, its time is over, or other tasks run beside it.

    `on_orphan` applies when the process of the task is lost. "fail": it fails. "rerun": it runs again from its input,
    only for agents with repeatable effects. "resume": it keeps its messages and artifacts and continues from its newest
    Checkpoint. At most `max_attempts` (1 to 1000) attempts.

    Limits in seconds; None or 0: the setting with this name. `run_limit`: for each attempt, and again after each pause;
    then the task fails. `queue_limit`: for each wait in the queue. `pause_limit`: for each wait for the user.

    `strategy` treats earlier tasks of the same agent and session that are submitted or working; paused tasks do not
    count. "parallel": run beside them. "queue": stay submitted until they end or pause. "reject": refuse the message
    with `SESSION_BUSY`, without a trace in the conversation. "interrupt": cancel them when the new task begins.

    `isolation`: "process" runs the agent in a process of its own. The agent may block, be killed or die without harm to
    other runs. Its name must be `module:attribute`, so that the process can load it. "thread" runs the agent in a
    thread with its own event loop, so that it may block. "none" runs it in the event loop of the executor, which must
    not block. A `run` that is a plain generator has at least a thread. ValueError: another value.
    """

    on_orphan: Literal["fail", "rerun", "resume"] = "fail"
    max_attempts: Annotated[int, Range(1, 1000)] = 3
    run_limit: Duration | None = None
    queue_limit: Duration | None = None
    pause_limit: Duration | None = None
    strategy: Literal["parallel", "queue", "reject", "interrupt"] = "parallel"
    isolation: Isolation = "none"

    def __post_init__(self) -> None:
        if wrong := broken_rules(self):
            raise ValueError("; ".join(f"{name} {rule}" for name, rule in wrong.items()))
