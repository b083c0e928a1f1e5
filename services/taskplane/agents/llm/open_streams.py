"""The streams of a model in one run, so that all are closed with the run."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models import Model, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel

log = logging.getLogger(__name__)


class OpenStreams(AbstractCapability[Any]):
    """A capability of one run, which notes the streams of its model.

    A run that is cancelled just as its model begins to answer leaves the stream, and its connection, open.
    """

    def __init__(self) -> None:
        self._open: dict[int, StreamedResponse] = {}

    def get_wrapper_model(self, model: Model) -> Model:
        """Return the model, with its streams noted."""
        return _Noting(model, self._open)

    async def close(self) -> None:
        """Close all open streams."""
        while self._open:
            _, stream = self._open.popitem()
            try:
                await stream.cancel()
            except Exception:
                log.warning("the stream of a language model was not closed in order", exc_info=True)


class _Noting(WrapperModel):
    def __init__(self, model: Model, streams: dict[int, StreamedResponse]) -> None:
        super().__init__(model)
        self._streams = streams

    @asynccontextmanager
    async def request_stream(self, *args: Any, **options: Any) -> AsyncGenerator[StreamedResponse, None]:
        async with super().request_stream(*args, **options) as stream:
            self._streams[id(stream)] = stream
            try:
                yield stream
            finally:
                self._streams.pop(id(stream), None)
