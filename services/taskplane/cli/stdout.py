"""The delivery of a command's output to stdout before the command ends."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress

from taskplane.cli import exits
from taskplane.cli.options import Output
from taskplane.cli.report import report_error
from taskplane.runtime.errors import Invalid


def run_and_flush(command: Callable[[], int], output: Output = "text") -> int:
    """Run a command, flush stdout, and return the exit code. A pipe that its reader has closed is not a failure.

    If stdout cannot be written, report `BAD_OUTPUT` and return 2. Raise errors about files that have a name.
    """
    code = exits.OK
    try:
        code = command()
        print(end="", flush=True)
    except BrokenPipeError:
        _drop_the_rest()
    except OSError as error:
        if error.filename is not None:
            raise
        _drop_the_rest()
        return report_error(unwritable(error), output)
    return code


def unwritable(error: OSError) -> Invalid:
    """Return the error that stdout cannot be written."""
    return Invalid(
        f"The output could not be written: {error.strerror or error}",
        reason="BAD_OUTPUT",
        suggestion="The command may have succeeded anyway; check the target of stdout.",
    )


def _drop_the_rest() -> None:
    """Redirect stdout to nowhere, since the interpreter flushes it at exit and would print an error of its own."""
    with suppress(OSError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
