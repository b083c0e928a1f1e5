"""What a process of the plane imports until it is ready. The process that `processes` copies imports this."""

import gc
from importlib import import_module

for _name in (
    "taskplane.cli.app",
    "taskplane.cli.composition",
    "taskplane.cli.dev",
    "taskplane.cli.serve",
    "taskplane.runtime.process",
    "taskplane.sessions.guards",
    "taskplane.storage.postgresql",
    "taskplane.storage.sqlite",
    "taskplane.tasks.guards",
    "typer._adapters",
    "uvicorn.lifespan.off",
    "uvloop",
):
    import_module(_name)

# What no collection looks at stays shared with the copies.
gc.collect()
gc.freeze()
