"""The imports of a process of the plane or a command until it works. The process that `processes` copies imports this
module."""

import gc
import pkgutil
from importlib import import_module

from taskplane import cli

for _module in pkgutil.walk_packages(cli.__path__, f"{cli.__name__}."):
    if not _module.name.endswith("__main__"):
        import_module(_module.name)

# Modules that the rooms import late.
for _name in (
    "anyio._backends._asyncio",
    "certifi",
    "httpcore",
    "rich.live",
    "rich.markdown",
    "taskplane.runtime.process",
    "taskplane.sessions.triggers",
    "taskplane.storage.postgresql",
    "taskplane.storage.sqlite",
    "taskplane.tasks.triggers",
    "typer._adapters",
    "typer._click.decorators",
    "uvicorn.lifespan.off",
    "uvloop",
):
    import_module(_name)

# Objects that no collection touches stay shared with the copies.
gc.collect()
gc.freeze()
