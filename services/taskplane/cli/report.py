"""How a command says that it could not: what happened, why, what to do, then a code."""

import json
import sys
from typing import Final

from taskplane.cli import exits
from taskplane.cli.client.failures import BadUsage, Ended, Failure, Missing, Unauthorized, Unreachable
from taskplane.cli.options import Output
from taskplane.runtime.errors import DeadlineExceeded, Invalid, PlaneError

_EXITS: Final[dict[type[Exception], int]] = {
    Unreachable: exits.UNREACHABLE,
    Unauthorized: exits.UNAUTHORIZED,
    Missing: exits.NOT_FOUND,
    Ended: exits.FAILED,
    BadUsage: exits.USAGE,
    Invalid: exits.USAGE,
    DeadlineExceeded: exits.TIMED_OUT,
}


def report_error(error: Failure | PlaneError, output: Output = "text") -> int:
    """Says on stderr what went wrong, in words or as one JSON object, and gives the exit code that goes with it."""
    code = error.code if isinstance(error, Failure) else error.reason
    if output == "text":
        lines = [f"✗ {error.message}", *(f"  {line}" for line in error.suggestion.splitlines()), f"  {code}"]
        print("\n".join(lines), file=sys.stderr)
    else:
        retryable = isinstance(error, Unreachable) or error.retry_after is not None
        body = {"code": code, "message": error.message, "suggestion": error.suggestion, "retryable": retryable}
        print(json.dumps({"error": body}, ensure_ascii=False), file=sys.stderr)
    return next((exit for kind, exit in _EXITS.items() if isinstance(error, kind)), exits.FAILED)


def note(text: str) -> None:
    """One line on stderr: about the run, not of its result."""
    print(text, file=sys.stderr, flush=True)


def confirm(question: str) -> bool:
    """Asks on stderr and reads the answer; whatever is not a yes is a no."""
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def single_refusal(group: BaseExceptionGroup[BaseException]) -> PlaneError | None:
    """The refusal in a group that has nothing worse: task groups wrap what ends them."""
    refused, rest = group.split(PlaneError)
    if rest is not None or refused is None:
        return None
    error: PlaneError | BaseExceptionGroup[PlaneError] = refused
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
