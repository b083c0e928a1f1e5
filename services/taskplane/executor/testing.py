"""The name of `taskplane.testing` before release 0.1; it goes with release 0.2."""

import warnings
from importlib import import_module
from typing import Any

warnings.warn("taskplane.executor.testing is taskplane.testing now", DeprecationWarning, stacklevel=2)


def __getattr__(name: str) -> Any:
    """Return the object with this name in `taskplane.testing`."""
    return getattr(import_module("taskplane.testing"), name)
