"""Error reports of a command: problem, cause, remedy and code."""

import sys
from typing import Final

from taskplane.cli import exits
from taskplane.cli.advice import advice
from taskplane.cli.options import Output
from taskplane.client.failures import BadUsage, Ended, Failure, Missing, NotUnderstood, Unauthorized, Unreachable
from taskplane.runtime import json_lines
from taskplane.runtime.errors import DataLoss, DeadlineExceeded, Invalid, PlaneError, Unauthenticated

_EXITS: Final[dict[type[Exception], int]] = {
    Unreachable: exits.UNREACHABLE,
    NotUnderstood: exits.UNREACHABLE,
    Unauthorized: exits.UNAUTHORIZED,
    Missing: exits.NOT_FOUND,
    Ended: exits.FAILED,
    BadUsage: exits.USAGE,
    Invalid: exits.USAGE,
    DataLoss: exits.USAGE,
    DeadlineExceeded: exits.TIMED_OUT,
    Unauthenticated: exits.UNAUTHORIZED,
}


def report_error(error: Failure | PlaneError, output: Output = "text") -> int:
    """Print an error to stderr, as text or as one JSON object, and return its exit code."""
    suggestion = advice(error) if isinstance(error, Failure) else error.suggestion
    if output == "text":
        lines = [f"✗ {error.message}", *(f"  {line}" for line in suggestion.splitlines()), f"  {error.reason}"]
        print("\n".join(lines), file=sys.stderr)
    else:
        retryable = error.retryable if isinstance(error, Failure) else error.retry_after is not None
        body = {"code": error.reason, "message": error.message, "suggestion": suggestion, "retryable": retryable}
        print(json_lines.encode_text({"error": body}), file=sys.stderr)
    return next((exit for kind, exit in _EXITS.items() if isinstance(error, kind)), exits.FAILED)


def note(text: str) -> None:
    """Print one line about the run to stderr; results go to stdout."""
    print(text, file=sys.stderr, flush=True)


def confirm(question: str) -> bool:
    """Ask on stderr and return whether the answer is yes."""
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def nobody_to_ask(what: str) -> Invalid:
    """Return the error for a command that needs a confirmation if the input is not a terminal."""
    return Invalid(f"{what}: it requires a confirmation.", reason="NOT_CONFIRMED", suggestion="Confirm with --yes.")


def single_refusal(group: BaseExceptionGroup[BaseException]) -> PlaneError:
    """Return the first PlaneError of an exception group that contains nothing else. Raise any other group."""
    refused, rest = group.split(PlaneError)
    if rest is not None or refused is None:
        raise group
    error: PlaneError | BaseExceptionGroup[PlaneError] = refused
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
