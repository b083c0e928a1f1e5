"""`taskplane serve`: one process of the plane, run as `python -m taskplane.<service>`."""

from runpy import run_module

from taskplane.cli import exits
from taskplane.cli.report import report_error, single_refusal
from taskplane.cli.settings import ALSO, KNOWN
from taskplane.runtime.errors import PlaneError
from taskplane.runtime.settings import check_unknown


def serve(service: str) -> int:
    """Run the service until SIGTERM and exit with its code.

    Settings come from the environment; an unknown variable is refused.
    """
    try:
        check_unknown(None, KNOWN, ALSO)
        run_module(f"taskplane.{service}", run_name="__main__", alter_sys=True)
    except PlaneError as error:
        return report_error(error)
    except BaseExceptionGroup as group:
        return report_error(single_refusal(group))
    return exits.OK
