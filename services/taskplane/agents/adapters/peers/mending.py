"""Answers of older and careless A2A servers, corrected to the form of their version.

Servers leave out required members, write null for missing members, answer with another JSON-RPC id, and spell members
as in their language. If the meaning is clear, the answer is corrected. Everything else stays unchanged, and the SDK
names the unreadable member.
"""

import json
from typing import Any, Final, Self

import httpx

from taskplane.agents.adapters.peers.members import Dialect, artifact, listed, members, message, status

Kind = str
_TASK, _MESSAGE, _STATUS, _ARTIFACT = "task", "message", "status-update", "artifact-update"
_WRAPPERS: Final = {_TASK: _TASK, _MESSAGE: _MESSAGE, "statusUpdate": _STATUS, "artifactUpdate": _ARTIFACT}
_WRAPPER: Final = {kind: wrapper for wrapper, kind in _WRAPPERS.items()}
# The methods of 1.0 with results that name their kind by a wrapper.
_WRAPPED: Final = frozenset({"SendMessage", "SendStreamingMessage", "SubscribeToTask"})
_WRAPPED_PATHS: Final = ("/message:send", "/message:stream", ":subscribe")
_AT_REST: Final = frozenset(
    {"completed", "failed", "canceled", "rejected", "input-required", "auth-required", "unknown"}
)


class Mending:
    """The mending of the answers to one request."""

    def __init__(
        self, dialect: Dialect | None, *, call_id: Any = None, wrapped: bool = False, task_id: str = ""
    ) -> None:
        """`dialect`: None leaves answers unchanged. `call_id`: the JSON-RPC id of the request. `wrapped`: True if the
        kind of a result is the name of a wrapper. `task_id`: the task of the request; "" means the first task in an
        answer.
        """
        self._dialect: Dialect | None = dialect
        self._call_id = call_id
        self._wrapped = wrapped
        self._task_id = task_id

    @classmethod
    def of(cls, request: httpx.Request) -> Self:
        """Return the mending of the answers to a request that the SDK's client makes."""
        asked = _asked(request)
        method = str(asked.get("method") or "")
        params = members(asked.get("params"))
        task_id = str(params.get("id") or members(params.get("message")).get("taskId") or "")
        if not method:
            # REST. In 0.3 it has the JSON of a proto of its own; the parser accepts null and requires no member.
            path = request.url.path
            return cls(None if "/v1/" in path else "proto", wrapped=path.endswith(_WRAPPED_PATHS))
        dialect: Dialect = "0.3" if "/" in method else "proto"
        return cls(dialect, call_id=asked.get("id"), wrapped=method in _WRAPPED, task_id=task_id)

    def answer(self, value: Any) -> Any:
        """Return an answer or event in the form of its version."""
        found = members(value)
        if not found or self._dialect is None:
            return value
        if "jsonrpc" not in found and "result" not in found and not isinstance(found.get("error"), dict):
            return self._result(found)
        envelope: dict[str, Any] = {"jsonrpc": "2.0", "id": self._call_id}
        if found.get("error"):
            return {**envelope, "error": found["error"]}
        return {**envelope, "result": self._result(found.get("result"))}

    def _result(self, value: Any) -> Any:
        found = members(value)
        dialect = self._dialect
        if not found or dialect is None:
            return value
        wrapper = next((name for name in _WRAPPERS if isinstance(found.get(name), dict)), "")
        if wrapper and "kind" not in found:
            kind, inner = _WRAPPERS[wrapper], found[wrapper]
        else:
            kind, inner = _kind(found), found
        if not kind:
            return found
        formed = self._formed(kind, members(inner), dialect)
        if dialect == "0.3":
            return {**formed, "kind": kind}
        formed.pop("kind", None)
        return {_WRAPPER[kind]: formed} if wrapper or self._wrapped else formed

    def _formed(self, kind: Kind, found: dict[str, Any], dialect: Dialect) -> dict[str, Any]:
        if kind == _MESSAGE:
            return message(found, dialect, self._task_id)
        if kind == _TASK:
            self._task_id = str(found.get("id") or self._task_id)
            return self._task(found, dialect)
        if "taskId" not in found:
            # The name of 0.1 and 0.2.
            found["taskId"] = found.get("id") or self._task_id
        self._task_id = str(found["taskId"] or "")
        self._give_context(found)
        if kind == _STATUS:
            found["status"] = status(found.get("status"), dialect, self._task_id)
            if dialect == "0.3" and not isinstance(found.get("final"), bool):
                found["final"] = found["status"].get("state") in _AT_REST
            return found
        inner = members(found.get("artifact"))
        for name in ("append", "lastChunk"):
            # In the artifact, as 0.1 and 0.2 have them.
            if isinstance(given := inner.pop(name, None), bool):
                found.setdefault(name, given)
        found["artifact"] = artifact(inner, dialect)
        return found

    def _task(self, found: dict[str, Any], dialect: Dialect) -> dict[str, Any]:
        self._give_context(found)
        found["status"] = status(found.get("status"), dialect, self._task_id)
        if "history" in found:
            found["history"] = [message(members(one), dialect, self._task_id) for one in listed(found["history"])]
        if "artifacts" in found:
            found["artifacts"] = [artifact(members(one), dialect) for one in listed(found["artifacts"])]
        return found

    def _give_context(self, found: dict[str, Any]) -> None:
        if not isinstance(found.get("contextId"), str):
            # `sessionId` is the name of 0.1. Nothing is made up: an empty one is not sent back.
            found["contextId"] = str(found.get("sessionId") or "")


def _kind(found: dict[str, Any]) -> Kind:
    """Return the kind of a result without a wrapper; "" if it is none of the four kinds."""
    if (kind := found.get("kind")) in _WRAPPER:
        return str(kind)
    if "artifact" in found:
        return _ARTIFACT
    if "status" in found:
        return _STATUS if "taskId" in found or "final" in found else _TASK
    if "parts" in found or "messageId" in found:
        return _MESSAGE
    return ""


def _asked(request: httpx.Request) -> dict[str, Any]:
    try:
        return members(json.loads(request.content))
    except (ValueError, httpx.RequestNotRead):
        return {}
