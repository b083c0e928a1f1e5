"""The questions of long-running tools, and the user's answers to them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from google.genai import types

from taskplane.agents.adapters.adk.events import Call
from taskplane.agents.adapters.approvals import decision, members
from taskplane.agents.agent import AskAuth, AskInput, Message, text_of
from taskplane.agents.tool_calls import mark_of
from taskplane.runtime.json_values import to_dict, to_json

# The calls by which ADK itself asks its user.
_CONFIRMATION: Final = "adk_request_confirmation"
_CREDENTIAL: Final = "adk_request_credential"
_QUESTIONS: Final = ("question", "message", "hint")


def question(waiting: Sequence[Call], said: str | Message | None) -> AskInput | AskAuth:
    """Return the pause in which the user is asked for the answers to `waiting`.

    `said`: the last message of the agent, if that is the question.
    """
    asks_auth = any(call.name == _CREDENTIAL for _, call in waiting)
    asked = said if said is not None else "\n".join(_question(call) for _, call in waiting)
    return AskAuth(asked) if asks_auth else AskInput(asked)


def _question(call: types.FunctionCall) -> str:
    args: Mapping[str, Any] = call.args or {}
    if call.name == _CREDENTIAL:
        address = _at(args, "authConfig", "exchangedAuthCredential", "oauth2", "authUri")
        return f"Please authenticate at {address}" if address else "Please authenticate."
    if call.name == _CONFIRMATION:
        hint = _at(args, "toolConfirmation", "hint")
        return hint or f"May {_at(args, 'originalFunctionCall', 'name') or 'the tool'} be called?"
    return next((_at(args, key) for key in _QUESTIONS if _at(args, key)), f"{call.name} waits for an answer.")


def _at(args: Any, *path: str) -> str:
    for key in path:
        args = args.get(key) if isinstance(args, Mapping) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return args if isinstance(args, str) else ""


def answer(message: Message, waiting: Sequence[Call]) -> types.Content | None:
    """Return the user's message as responses to the calls that wait. None if it answers no call, or if a requested
    permission is neither given nor denied.

    Data parts that are marked as function responses answer the calls with their ids. Without such parts, the only data
    part, or else the text, answers all calls.
    """
    parts: list[types.Part] = []
    for call, given in _given(message, waiting):
        response = _confirmation(given) if call.name == _CONFIRMATION else _response(given)
        if response is None:
            return None
        parts.append(
            types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response=response))
        )
    return types.Content(role="user", parts=parts) if parts else None


def _given(message: Message, waiting: Sequence[Call]) -> Iterator[tuple[types.FunctionCall, Any]]:
    named: dict[str, Any] = {}
    data: list[Any] = []
    for part in message.parts:
        if not part.HasField("data"):
            continue
        if mark_of(part) == "function_response":
            fields = to_dict(part.data.struct_value)
            named[str(fields.get("id", ""))] = fields.get("response")
        else:
            data.append(to_json(part.data))
    words = text_of(message)
    for _, call in waiting:
        if named:
            if call.id in named:
                yield call, named[call.id]
        else:
            yield call, data[0] if len(data) == 1 else words


def _response(given: Any) -> dict[str, Any]:
    return given if isinstance(given, dict) else {"result": given}  # pyright: ignore[reportUnknownVariableType]


def _confirmation(given: Any) -> dict[str, Any] | None:
    """Return an answer in the form of ADK; None if it is unclear."""
    confirmed = decision(given)
    if confirmed is None:
        return None
    payload = members(given).get("payload")
    return {"confirmed": confirmed} | ({} if payload is None else {"payload": payload})
