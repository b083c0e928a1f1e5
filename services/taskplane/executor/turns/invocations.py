"""The invocation of a turn: its idempotency key, the hash of its request."""

import hashlib
from typing import Any

import orjson

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.runtime.ids import new_id
from taskplane.runtime.message_json import readable
from taskplane.runtime.principal import Principal
from taskplane.runtime.validation import MAX_ID, invalid


def identify(request: pb.SubmitRequest, caller: Principal, agent: str) -> tuple[str, bytes]:
    """Return the invocation id of a send and the hash of its request.

    With a key the id is derived from kind of key, tenant, owner, agent and key, so that a repeat has the same id. The
    hash is made of the canonical JSON of message, configuration and metadata, without `returnImmediately`. Without a
    key both are new. Invalid: the key is longer than 255 characters.
    """
    key = request.idempotency_key
    if not key:
        return _unique()
    kind = "message" if request.key_is_message_id else "key"
    return _keyed(kind, caller, agent, key), _hash(request.request)


def identify_rewind(request: pb.RewindSessionRequest, caller: Principal) -> tuple[str, bytes]:
    """Return the invocation id and hash of a rewind that is not a message. Its keys never collide with keys of
    sends."""
    key = request.idempotency_key
    if not key:
        return _unique()
    canonical = orjson.dumps([request.context_id, request.before_invocation_id])
    return _keyed("rewind", caller, "", key), hashlib.sha256(canonical).digest()


def identify_undo(request: pb.UndoRewindRequest, caller: Principal) -> tuple[str, bytes]:
    """Return the invocation id and hash of an undo. Its keys never collide with keys of rewinds or sends."""
    key = request.idempotency_key
    if not key:
        return _unique()
    return _keyed("undo", caller, "", key), hashlib.sha256(orjson.dumps([request.context_id])).digest()


def _unique() -> tuple[str, bytes]:
    invocation_id = new_id()
    return invocation_id, hashlib.sha256(invocation_id.encode()).digest()


def _keyed(kind: str, caller: Principal, agent: str, key: str) -> str:
    if len(key) > MAX_ID:
        raise invalid({"idempotency_key": f"must have at most {MAX_ID} characters"})
    scope = orjson.dumps([kind, caller.tenant, caller.owner, agent, key])
    return hashlib.sha256(scope).hexdigest()[:32]


def _hash(request: a2a.SendMessageRequest) -> bytes:
    canonical: dict[str, Any] = {"message": readable(request.message)}
    configuration = readable(request.configuration)
    # When a send is answered: streams ignore it, and the versions of A2A have different defaults.
    configuration.pop("returnImmediately", None)
    # One without content says the same as one that is missing.
    if configuration:
        canonical["configuration"] = configuration
    # An empty one is what remains of metadata that named a cursor only.
    if request.metadata.fields:
        canonical["metadata"] = readable(request.metadata)
    return hashlib.sha256(orjson.dumps(canonical, option=orjson.OPT_SORT_KEYS)).digest()
