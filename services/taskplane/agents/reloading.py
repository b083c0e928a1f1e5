"""Agents that are loaded again when their files change, for development.

The files are polled with a few dozen `stat` calls: this needs no library and works on every file system.
"""

import asyncio
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from taskplane.agents.adapters.refusals import bad_code
from taskplane.agents.loading import Agents, load_agents
from taskplane.agents.sources import files_of
from taskplane.runtime.errors import PlaneError

_MODULE: Final = re.compile(r"(?:[^=:]*=)?(?P<module>\w[\w.]*):\w[\w.]*(?:@\w+)?")
_PROGRAM: Final = "taskplane"
_SITE: Final = f"{os.sep}site-packages{os.sep}"
# Time, size and identity of a file; None: the file does not exist.
_Mark = tuple[int, int, int] | None


class AgentModules:
    """The modules that agents import from a folder, without the modules in its virtual environment.

    A reload makes new module objects; a running agent keeps the old ones. A module that old code imports for the first
    time after a reload is the new module.
    """

    def __init__(self, folder: Path) -> None:
        """Ignore all modules that are imported already. Call this before the agents are loaded."""
        self._inside = f"{folder}{os.sep}"
        prefix = f"{sys.prefix}{os.sep}"
        self._installed = prefix if prefix.startswith(self._inside) else ""
        self._before = frozenset(sys.modules)
        # Files of the modules that the last failed load imported, and of its traceback.
        self._files_of_failed_load: frozenset[Path] = frozenset()

    def loaded(self) -> dict[str, ModuleType]:
        """Return the modules by name."""
        return {name: module for name, module in list(sys.modules.items()) if self._is_authors(name, module)}

    def anew(self, load: "Callable[[], Agents]") -> Agents:
        """Remove the modules from `sys.modules`, then call `load`. If it raises, put the old modules back."""
        old = self.loaded()
        for name in old:
            del sys.modules[name]
        importlib.invalidate_caches()
        try:
            return load()
        except BaseException as error:
            # Python has removed the modules that raised from `sys.modules`.
            raised = frozenset(Path(file) for file in files_of(error) if self._is_here(file))
            self._files_of_failed_load = self.files() | raised
            for name in self.loaded():
                del sys.modules[name]
            sys.modules.update(old)
            raise

    def files(self) -> frozenset[Path]:
        """Return the files of the modules."""
        found = (getattr(module, "__file__", None) for module in self.loaded().values())
        return frozenset(Path(file) for file in found if file is not None)

    def files_of_last_load(self) -> frozenset[Path]:
        """Return the files of the modules, and the files of the last failed load: of its modules and its traceback."""
        return self._files_of_failed_load | self.files()

    def suspects(self) -> frozenset[Path]:
        """Return the files to watch after a failed load: the known files, and every .py file in their folders."""
        read = self.files_of_last_load()
        return read.union(*(folder.glob("*.py") for folder in {file.parent for file in read}))

    def _is_authors(self, name: str, module: Any) -> bool:
        if name in self._before or name.partition(".")[0] == _PROGRAM:
            return False
        places = _places(module)
        return bool(places) and all(self._is_here(place) for place in places)

    def _is_here(self, place: str) -> bool:
        if not place.startswith(self._inside) or _SITE in place:
            return False
        return not (self._installed and place.startswith(self._installed))


class Reloader:
    """The agents of some specs, loaded again whenever one of their files changes."""

    def __init__(self, specs: Iterable[str], folder: Path, *, every: float, allow_crash: bool = False) -> None:
        """Create this before the agents are loaded. `folder`: the folder of the modules that may change. `every`: the
        seconds between two polls."""
        self._specs = tuple(spec for spec in specs if _MODULE.fullmatch(spec))
        self._modules = AgentModules(folder)
        self._every = every
        self._allow_crash = allow_crash
        # Otherwise Python could load an old .pyc file of a module that changed twice within one second.
        sys.dont_write_bytecode = True

    async def watch(self, loaded: Callable[[Agents], None], failed: Callable[[PlaneError], None]) -> None:
        """Look for changes until cancelled. Call `loaded` with the new agents, or `failed` with the error."""
        broken = False
        marks = self._marks(broken)
        while True:
            await asyncio.sleep(self._every)
            now = self._marks(broken)
            if now == marks:
                continue
            # Some editors write a file in several steps.
            while now != marks:
                marks = now
                await asyncio.sleep(self._every)
                now = self._marks(broken)
            before = self._marks(True)
            result: Agents | PlaneError
            try:
                result = self._modules.anew(lambda: load_agents(self._specs, allow_crash=self._allow_crash))
            except PlaneError as error:
                result = error
            except BaseException as error:  # noqa: BLE001 - of the agent's module: no cancellation without await
                result = bad_code(", ".join(self._specs), error)
            broken = isinstance(result, PlaneError)
            # Files that changed during the load, and files that it did not read, count as changed at the next poll.
            read = self._modules.files_of_last_load()
            after = self._marks(broken)
            marks = {file: before.get(file, mark if file in read else None) for file, mark in after.items()}
            # Last, so that the next poll finds every change after the report.
            if isinstance(result, PlaneError):
                failed(result)
            else:
                loaded(result)

    def _marks(self, broken: bool) -> dict[Path, _Mark]:
        files = self._modules.suspects() if broken else self._modules.files()
        return {file: _mark(file) for file in files}


def _mark(file: Path) -> _Mark:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _places(module: Any) -> list[str]:
    file = getattr(module, "__file__", None)
    if isinstance(file, str):
        return [file]
    # A namespace package has folders and no file.
    return [str(place) for place in _iterated(getattr(module, "__path__", ()))]


def _iterated(path: Any) -> Iterator[Any]:
    try:
        yield from path
    except TypeError:
        return
