"""Failures of model calls, as texts for users. Texts of a provider go only to the log."""

from typing import Any, Final

from pydantic_ai import exceptions
from pydantic_ai.messages import FinishReason, ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.wrapper import WrapperModel

from taskplane.agents.agent import AgentError

RETRIED: Final = (
    exceptions.ModelRateLimitError,
    exceptions.ModelUnavailableError,
    exceptions.ModelServerError,
    exceptions.ModelConnectionError,
    exceptions.ModelRequestTimeout,
)
"""The failures after which the same call may succeed."""

# The first matching class is used.
_TEXTS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (exceptions.ModelQuotaExceededError, "The account of the language model has no credit left."),
    (exceptions.ModelRateLimitError, "The language model takes no more requests at the moment. Try again later."),
    (exceptions.ModelOverloadedError, "The language model is overloaded. Try again later."),
    (exceptions.ModelUnavailableError, "The language model is not available at the moment. Try again later."),
    (exceptions.ModelServerError, "The provider of the language model has a fault. Try again later."),
    (exceptions.ModelTimeoutError, "The language model did not answer in time."),
    (exceptions.ModelRequestTimeout, "The language model did not answer in time."),
    (exceptions.ModelConnectionError, "The connection to the language model failed."),
    (exceptions.ModelAuthenticationError, "The language model did not accept the credentials of this agent."),
    (exceptions.ModelNotFoundError, "The language model that this agent is set to does not exist."),
    (exceptions.ModelContextWindowExceededError, "The conversation is too long for the language model."),
    (exceptions.ContentFilterError, "The language model's provider filtered its answer out."),
    (exceptions.ModelAPIError, "The language model refused the request."),
    (exceptions.UsageLimitExceeded, "The agent was stopped because it made too many model calls."),
    (exceptions.UnexpectedModelBehavior, "The language model gave an answer that cannot be used."),
)
_BROKE_OFF: Final = "The language model broke off in the middle of its answer."
# Finish reasons of incomplete answers that pydantic-ai accepts as complete.
_NOT_WHOLE: Final[dict[FinishReason | None, str]] = {
    "length": "The language model reached the limit of its answer's length before the end.",
    "content_filter": "The language model's provider filtered its answer out.",
    "error": _BROKE_OFF,
}


def readable(error: Exception, *, begun: bool) -> Exception:
    """Return the failure to raise for `error`: an AgentError for a failure of the model, itself otherwise.

    `begun`: the model had begun to answer.
    """
    if begun and isinstance(error, exceptions.ModelConnectionError):
        return AgentError(_BROKE_OFF)
    for kind, text in _TEXTS:
        if isinstance(error, kind):
            return AgentError(text)
    return error


def check_whole(model: Model, response: ModelResponse) -> None:
    """Raise AgentError if a streamed answer is incomplete; the library may report no error then.

    The connection, the provider or a limit may cut an answer.
    """
    if response.finish_reason in _NOT_WHOLE:
        raise AgentError(_NOT_WHOLE[response.finish_reason])
    if any(_is_cut(each, response) for each in _serving(model)):
        raise AgentError(_BROKE_OFF)


def _is_cut(model: Model, response: ModelResponse) -> bool:
    if isinstance(model, OpenAIChatModel):
        # The library says "stop" if the stream gave no reason; only the provider's own words tell.
        return "finish_reason" not in (response.provider_details or dict[str, Any]())
    known = type(model).__module__.startswith("pydantic_ai.models.")
    scripted = type(model).__module__ in ("pydantic_ai.models.test", "pydantic_ai.models.function")
    return known and not scripted and response.finish_reason is None


def _serving(model: Model) -> list[Model]:
    """Return the model that answers; None if one of several models may answer."""
    while isinstance(model, WrapperModel):
        model = model.wrapped
    return [] if isinstance(model, FallbackModel) else [model]
