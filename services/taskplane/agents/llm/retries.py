"""Retries of model calls, in one place: before the first token, never after it."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from pydantic_ai import RetryModelRequest, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import ModelRequestContext

from taskplane.agents.llm.failures import RETRIED
from taskplane.runtime.backoff import growing

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 20.0


@dataclass
class Retries(AbstractCapability[Any]):
    """Tries a call up to `attempts` times while it fails before its first token, after the pause of the provider."""

    attempts: int = 3

    async def on_model_request_error(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        """Raise RetryModelRequest after a pause, or the error. The library asks only before the first token."""
        attempt = request_context.attempt
        if attempt >= self.attempts or not isinstance(error, RETRIED):
            raise error
        pause = pause_after(attempt, getattr(error, "retry_after", None))
        if pause is None:
            raise error
        await asyncio.sleep(pause)
        raise RetryModelRequest


def pause_after(attempt: int, asked: float | None = None) -> float | None:
    """Return the seconds to wait after so many attempts: the provider's wish (`asked`), or else twice the last wait.

    None if the provider asks for more than 20 seconds: then the call is not repeated.
    """
    if asked is not None:
        return asked if asked <= _LONGEST_PAUSE else None
    return growing(attempt, _FIRST_PAUSE, _LONGEST_PAUSE)
