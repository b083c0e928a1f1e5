"""What either end of a tunnel does with frames: those that come up together go as one message, large ones in pieces."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final

import grpc

from taskplane.api.tunnel.v1 import tunnel_pb2 as pb
from taskplane.runtime.exchange import Pairs
from taskplane.runtime.memo import Memo

PIECE: Final = 64 * 1024
"""Bytes of a message that are sent before others have their turn."""
AHEAD: Final = 4
"""Messages of a stream that are sent before the caller has taken the first."""
TOLD_AT_ONCE: Final = 2
"""Messages that were taken when the server is told: fewer than `AHEAD`, so that it does not stand still meanwhile, and
a stream of a single one needs no word about it."""
# Bytes after which a message takes no more frames, and what a frame counts for besides its piece: with 256 of the
# largest principals or errors a message is below what services take.
_MOST: Final = 4 * PIECE
_LEAST: Final = 1024


class Outgoing:
    """The frames that wait to be sent: in order within a call, and the calls take turns."""

    def __init__(self) -> None:
        self._lines: dict[int, deque[Iterator[pb.Frame]]] = {}
        self._bell = asyncio.Event()
        self._closed = False

    def put(self, frame: pb.Frame, message: bytes | None = None) -> None:
        """Sends a frame soon, with `message` in it; if need be in pieces, the frame's own fields with the first."""
        line = self._lines.get(frame.call)
        if line is None:
            line = self._lines[frame.call] = deque()
            self._bell.set()
        line.append(_in_pieces(frame, message) if message is not None else iter((frame,)))

    def drop(self, call: int) -> None:
        """Sends nothing of what still waits for a call."""
        self._lines.pop(call, None)

    def close(self) -> None:
        """Nothing comes after what waits."""
        self._closed = True
        self._bell.set()

    async def write(self, write: Callable[[pb.Frames], Awaitable[object]]) -> None:
        """Sends until it is closed. Whatever `write` raises is the caller's."""
        while not (self._closed and not self._lines):
            await self._bell.wait()
            self._bell.clear()
            while self._lines:
                await write(self._next())

    def _next(self) -> pb.Frames:
        frames = pb.Frames()
        size = 0
        while self._lines and size < _MOST:
            call, line = next(iter(self._lines.items()))
            del self._lines[call]
            frame = next(line[0])
            frames.frames.append(frame)
            size += _LEAST + len(frame.piece)
            if not frame.more:
                line.popleft()
            if line:
                self._lines[call] = line
        return frames


def _in_pieces(frame: pb.Frame, message: bytes) -> Iterator[pb.Frame]:
    for at in range(0, len(message) or 1, PIECE):
        frame.piece = message[at : at + PIECE]
        frame.more = at + PIECE < len(message)
        yield frame
        frame = pb.Frame(call=frame.call)


class Joined:
    """The message of a call whose pieces arrive."""

    __slots__ = ("_pieces", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.size = 0
        """Bytes so far."""

    def add(self, frame: pb.Frame) -> bytes | None:
        """Takes a piece; the message, if it is whole now."""
        if not frame.more and not self._pieces:
            return frame.piece
        self._pieces.append(frame.piece)
        self.size += len(frame.piece)
        if frame.more:
            return None
        message = b"".join(self._pieces)
        self._pieces.clear()
        self.size = 0
        return message


def _to_pair(pair: tuple[str, str | bytes]) -> pb.Pair:
    key, value = pair
    return pb.Pair(key=key, value=value.encode("latin-1") if isinstance(value, str) else value)


# Nearly all calls have the principal of another one, or its request id.
_pairs: Final[Memo[tuple[str, str | bytes], pb.Pair]] = Memo(_to_pair)


def to_pairs(metadata: Iterable[tuple[str, str | bytes]]) -> list[pb.Pair]:
    """The metadata of a request as it travels."""
    return [_pairs[pair] for pair in metadata]


def end_of(status: grpc.StatusCode, text: str, initial: Pairs = (), trailing: Pairs = ()) -> pb.End:
    """How a call ends, as it travels."""
    end = pb.End(code=int(status.value[0]), details=text)
    end.initial_metadata.extend(map(_to_pair, initial))
    end.trailing_metadata.extend(map(_to_pair, trailing))
    return end


def from_pairs(pairs: Iterable[pb.Pair]) -> Pairs:
    """Metadata as gRPC has it: bytes where the key ends in -bin, else text."""
    return tuple(
        [(pair.key, pair.value if pair.key.endswith("-bin") else pair.value.decode("latin-1")) for pair in pairs]
    )
