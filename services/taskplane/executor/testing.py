"""The name of `taskplane.testing` before release 0.1; it goes with release 0.2."""

import warnings
from importlib import import_module
from typing import Any

warnings.warn("taskplane.executor.testing is taskplane.testing now", FutureWarning, stacklevel=2)


def __getattr__(name: str) -> Any:
    """Return the object with this name in `taskplane.testing`. AttributeError: there is none."""
    # A `__path__` would make this a package, with second copies of the modules of taskplane.testing.
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("taskplane.testing"), name)
