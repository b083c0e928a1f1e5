"""A name server of one name (RFC 1035), with addresses that a test changes."""

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

_A, _IN = 1, 1
_ANSWER = 0x8580
_POINTER_TO_QUESTION = 0xC00C


class NameServer(asyncio.DatagramProtocol):
    """Answers every question for an A record with `addresses`, with a time to live of 0, and other questions with
    nothing."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = list(addresses)
        self.asked = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # It is one, though asyncio's selector transport does not inherit from it.
        self._transport = cast("asyncio.DatagramTransport", transport)

    def target(self, name: str, port: int) -> str:
        """Return the gRPC target of `name`, resolved here."""
        return f"dns://127.0.0.1:{self._transport.get_extra_info('sockname')[1]}/{name}:{port}"

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        (number,) = struct.unpack_from("!H", data)
        end = data.index(b"\0", 12) + 5
        (kind,) = struct.unpack_from("!H", data, end - 4)
        addresses = self.addresses if kind == _A else []
        self.asked += kind == _A
        reply = struct.pack("!HHHHHH", number, _ANSWER, 1, len(addresses), 0, 0) + data[12:end]
        for address in addresses:
            reply += struct.pack("!HHHIH", _POINTER_TO_QUESTION, _A, _IN, 0, 4) + socket.inet_aton(address)
        self._transport.sendto(reply, addr)


@asynccontextmanager
async def name_server(*addresses: str) -> AsyncGenerator[NameServer]:
    """A name server on a free UDP port of loopback."""
    transport, server = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: NameServer(*addresses), local_addr=("127.0.0.1", 0)
    )
    try:
        yield server
    finally:
        transport.close()
