"""`taskplane serve`: one process of the plane, as `python -m taskplane.<room>` runs it."""

from importlib import import_module

from taskplane.cli.report import complain
from taskplane.cli.settings import ALSO, KNOWN
from taskplane.runtime.errors import PlaneError
from taskplane.runtime.settings import check_unknown


def serve(room: str) -> int:
    """Runs the room until SIGTERM; its exit code. Settings come from the environment, and an unknown one is refused."""
    try:
        check_unknown(None, KNOWN, ALSO)
        code: int = import_module(f"taskplane.{room}.__main__").main()
    except PlaneError as error:
        return complain(error)
    return code
