"""Agents with code that is loaded anew when their files change, for authors at work.

The modules are looked at every so often: a few dozen `stat` calls, which need no library and work on every file system.
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
from taskplane.runtime.errors import PlaneError

_MODULE: Final = re.compile(r"(?:[^=:]*=)?(?P<module>\w[\w.]*):\w[\w.]*(?:@\w+)?")
_OURS: Final = "taskplane"
_SITE: Final = f"{os.sep}site-packages{os.sep}"
# Time, size and identity of a file; None: there is none.
_Mark = tuple[int, int, int] | None


class AgentModules:
    """The modules that are imported for agents from a folder, which are not those of its virtual environment.

    They are replaced by new module objects; holders of the old ones, such as a running agent, keep them. Modules that
    old code imports only then are new, though.
    """

    def __init__(self, folder: Path) -> None:
        """Begin with the modules imported now, which are left alone: to be called before the agents are loaded."""
        self._inside = f"{folder}{os.sep}"
        prefix = f"{sys.prefix}{os.sep}"
        self._installed = prefix if prefix.startswith(self._inside) else ""
        self._before = frozenset(sys.modules)
        # Files of modules that were imported by a load that raised.
        self._tried: frozenset[Path] = frozenset()

    def loaded(self) -> dict[str, ModuleType]:
        """Return the modules by name."""
        return {name: module for name, module in list(sys.modules.items()) if self._is_ours(name, module)}

    def anew(self, load: "Callable[[], Agents]") -> Agents:
        """Call `load` with none of the modules imported. If it raises, the old modules are those of the name again."""
        old = self.loaded()
        for name in old:
            del sys.modules[name]
        importlib.invalidate_caches()
        try:
            return load()
        except BaseException:
            self._tried = self.files()
            for name in self.loaded():
                del sys.modules[name]
            sys.modules.update(old)
            raise

    def files(self) -> frozenset[Path]:
        """Return the files of the modules."""
        found = (getattr(module, "__file__", None) for module in self.loaded().values())
        return frozenset(Path(file) for file in found if file is not None)

    def read(self) -> frozenset[Path]:
        """Return the files of the modules, and those that the last load read which raised."""
        return self._tried | self.files()

    def suspects(self) -> frozenset[Path]:
        """Return the files in which the cause may be that the last load raised: those that it read, and all that are
        beside the modules, since one may be missing."""
        read = self.read()
        return read.union(*(folder.glob("*.py") for folder in {file.parent for file in read}))

    def _is_ours(self, name: str, module: Any) -> bool:
        if name in self._before or name.partition(".")[0] == _OURS:
            return False
        places = _places(module)
        return bool(places) and all(self._is_here(place) for place in places)

    def _is_here(self, place: str) -> bool:
        if not place.startswith(self._inside) or _SITE in place:
            return False
        return not (self._installed and place.startswith(self._installed))


class Reloader:
    """The agents of some specs, loaded anew whenever a file of theirs changes."""

    def __init__(self, specs: Iterable[str], folder: Path, *, every: float, allow_crash: bool = False) -> None:
        """Prepare for the agents, which are not loaded yet. `folder`: where the modules are that may change. `every`:
        seconds between two looks."""
        self._specs = tuple(spec for spec in specs if _MODULE.fullmatch(spec))
        self._modules = AgentModules(folder)
        self._every = every
        self._allow_crash = allow_crash
        # No compiled file of a module that changes twice in a second is taken for the present one.
        sys.dont_write_bytecode = True

    async def watch(self, loaded: Callable[[Agents], None], failed: Callable[[PlaneError], None]) -> None:
        """Look for changes until cancelled. `loaded` takes the new agents, `failed` why there are none."""
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
            try:
                newer = self._modules.anew(lambda: load_agents(self._specs, allow_crash=self._allow_crash))
            except PlaneError as error:
                broken = True
                failed(error)
            except BaseException as error:  # noqa: BLE001 - of a module, since nothing else is awaited here
                broken = True
                failed(bad_code(", ".join(self._specs), error))
            else:
                broken = False
                loaded(newer)
            # A file that changed while it was read is found at the next look, and so is one that came meanwhile.
            read = self._modules.read()
            after = self._marks(broken)
            marks = {file: before.get(file, mark if file in read else None) for file, mark in after.items()}

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
    # A package without a file of its own.
    return [str(place) for place in _iterated(getattr(module, "__path__", ()))]


def _iterated(path: Any) -> Iterator[Any]:
    try:
        yield from path
    except TypeError:
        return
