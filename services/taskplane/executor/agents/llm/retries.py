"""Retries of model calls, in one place: before the first token, never after it."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from pydantic_ai import RetryModelRequest, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import ModelRequestContext

from taskplane.executor.agents.llm.failures import RETRIED

_FIRST_PAUSE: Final = 0.5
# A provider that asks for more is not waited for.
_LONGEST_PAUSE: Final = 20.0


@dataclass
class Retries(AbstractCapability[Any]):
    """Tries a call that failed before it gave a token up to `attempts` times, after the pause its provider asks for."""

    attempts: int = 3

    async def on_model_request_error(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        """Raise RetryModelRequest after a pause, or the error. The library asks only before the first token."""
        attempt = request_context.attempt
        if attempt >= self.attempts or not isinstance(error, RETRIED):
            raise error
        pause = getattr(error, "retry_after", None)
        if pause is None:
            pause = _FIRST_PAUSE * 2 ** (attempt - 1)
        if pause > _LONGEST_PAUSE:
            raise error
        await asyncio.sleep(pause)
        raise RetryModelRequest
