"""`taskplane worker`: runs agents for an executor that serves their cards."""

from dataclasses import dataclass

from taskplane.cli.report import report_error, single_refusal
from taskplane.cli.settings import ALSO, KNOWN
from taskplane.runtime.errors import Invalid, PlaneError
from taskplane.runtime.settings import check_unknown, load


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """The options of the command line; None: use the environment."""

    agents: tuple[str, ...] = ()
    tasks: str | None = None
    sessions: str | None = None
    capacity: int | None = None


def worker(options: WorkerOptions) -> int:
    """Run until SIGTERM or Ctrl-C, then drain. Return the exit code."""
    # Imported here, since the imports take a second.
    from taskplane.worker.settings import PREFIX, WorkerSettings
    from taskplane.worker.worker import run

    try:
        check_unknown(None, KNOWN, ALSO)
        settings = load(
            WorkerSettings,
            PREFIX,
            agents=options.agents or None,
            tasks=options.tasks,
            sessions=options.sessions,
            capacity=options.capacity,
        )
        if not settings.agents:
            raise Invalid(
                "an agent is required.",
                reason="USAGE",
                suggestion="Use the same name as the executor with its card: --agent NAME=MODULE:ATTRIBUTE.",
            )
        return run(settings)
    except PlaneError as error:
        return report_error(error)
    except BaseExceptionGroup as group:
        return report_error(single_refusal(group))
