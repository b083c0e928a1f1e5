"""Ports for servers that need a port in advance."""

import os
import random
import socket
from collections.abc import Generator
from contextlib import contextmanager

# Below the ports that systems give to outgoing connections, so that none of those takes one before its server does.
_FIRST, _LAST = 10_000, 32_000
# Each process that runs tests has ports of its own, so that none of the others takes one meanwhile.
_WORKERS = 16
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
_random = random.SystemRandom()
_given: set[int] = set()


def free_port() -> int:
    """A port of the loopback interface that was free a moment ago, and was not returned before."""
    while True:
        port = _random.randrange(_FIRST + _WORKER, _LAST, _WORKERS)
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port


@contextmanager
def refusing_port() -> Generator[int]:
    """A port of the loopback interface that refuses connections: it is taken, and nothing listens on it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        yield port
