"""What a command wrote has left it when it ends, or the command says that it could not be written."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress

from taskplane.cli import exits
from taskplane.cli.options import Output
from taskplane.cli.report import report_error
from taskplane.runtime.errors import Invalid


def run_and_flush(command: Callable[[], int], output: Output = "text") -> int:
    """Runs a command and gives its exit code once stdout has taken everything. A reader who left is no failure.

    Exits with 2, and says `BAD_OUTPUT`, where stdout takes no more. Errors about a file with a name are raised.
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
    """Says that stdout took no more."""
    return Invalid(
        f"The output could not be written: {error.strerror or error}",
        reason="BAD_OUTPUT",
        suggestion="What was asked for may have been done all the same; see where stdout goes.",
    )


def _drop_the_rest() -> None:
    """The interpreter writes what is left when it ends, and would report_error in its own words."""
    with suppress(OSError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
