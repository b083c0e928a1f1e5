"""Ports for servers that are told where to listen."""

import random
import socket

# Below the ports that systems give to outgoing connections, so that none of those takes one before its server does.
_FIRST, _LAST = 10_000, 32_000
_random = random.SystemRandom()


def free_port() -> int:
    """A port of the loopback interface that was free a moment ago."""
    while True:
        port = _random.randint(_FIRST, _LAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
