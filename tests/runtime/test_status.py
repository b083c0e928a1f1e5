"""Our errors and gRPC statuses, both ways."""

from typing import Any
from urllib.parse import quote

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]
from grpc_status import rpc_status

from taskplane.runtime import errors
from taskplane.runtime.errors import PlaneError
from taskplane.runtime.status import DETAILS_KEY, code_of, from_rpc_error, to_status, trailers

KINDS = [
    errors.Invalid, errors.NotFound, errors.AlreadyExists, errors.Refused, errors.Conflict, errors.OutOfRange,
    errors.Exhausted, errors.Unavailable, errors.DeadlineExceeded, errors.Unauthenticated, errors.PermissionDenied,
    errors.Unimplemented, errors.DataLoss, errors.Internal,
]  # fmt: skip


def sent(error: PlaneError) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(
        code_of(to_status(error)),
        grpc.aio.Metadata(),
        grpc.aio.Metadata(*trailers(to_status(error))),
        details=error.message,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_the_same_after_a_round_trip(kind: type[PlaneError]) -> None:
    error = kind(
        "what happened",
        reason="WHY",
        suggestion="do this",
        fields={"task.id": "is empty"},
        metadata={"oldest_generation": "7"},
        retry_after=0.25,
    )
    back = from_rpc_error(sent(error))
    assert type(back) is kind
    assert vars(back) == vars(error)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_without_extras_comes_back_without(kind: type[PlaneError]) -> None:
    assert vars(from_rpc_error(sent(kind("what happened")))) == vars(kind("what happened"))


def test_a_status_has_the_details_of_google_rpc() -> None:
    error = errors.Exhausted("full", reason="QUEUE_FULL", fields={"items": "too many"}, retry_after=2)
    status = to_status(error)
    assert (status.code, status.message) == (8, "full")
    info, wrong, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
    for detail, message in zip(status.details, (info, wrong, retry), strict=True):
        assert detail.Unpack(message)
    assert (info.domain, info.reason) == ("taskplane", "QUEUE_FULL")
    assert wrong.field_violations[0].field == "items"
    assert retry.retry_delay.seconds == 2
    library: Any = rpc_status
    assert library.to_status(status).code is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("character", ["a", "%", "\u00e4", "\u6f22", "\U0001f600"])
async def test_a_long_error_in_any_script_reaches_a_grpc_client(character: str) -> None:
    """A client refuses trailers over a limit between 8 and 16 KiB that it draws for each call."""
    long = character * 100_000
    error = errors.Invalid(
        long,
        reason="TOO_LONG",
        suggestion=long,
        fields={f"{n}{long}": long for n in range(50)},
        metadata={f"k{n}": long for n in range(50)},
    )
    status = to_status(error)
    assert len(quote(status.message)) + len(trailers(status)[0][1]) * 4 / 3 < 7.8 * 1024

    async def fail(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        await context.abort(code_of(status), status.message, trailing_metadata=trailers(status))

    methods: Any = {"Fail": grpc.unary_unary_rpc_method_handler(fail)}  # pyright: ignore[reportUnknownVariableType]
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Long", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: Any = channel.unary_unary("/Long/Fail")  # pyright: ignore[reportUnknownVariableType]
        for _ in range(20):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(b"")
            back = from_rpc_error(caught.value)
            assert (type(back), back.reason, len(back.fields)) == (errors.Invalid, "TOO_LONG", 8)
            assert back.message.startswith(character * 100)
    await server.stop(None)


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (grpc.StatusCode.UNAVAILABLE, errors.Unavailable, "a service is unreachable at the moment"),
        (grpc.StatusCode.UNKNOWN, errors.Internal, "internal error"),
        (grpc.StatusCode.INTERNAL, errors.Internal, "internal error"),
        (grpc.StatusCode.CANCELLED, errors.Unavailable, "the call ended before its answer"),
        (grpc.StatusCode.UNIMPLEMENTED, errors.Unimplemented, "10.0.0.1: secret"),
    ],
)
def test_a_status_of_the_transport_keeps_its_code_and_tells_no_addresses(
    code: grpc.StatusCode, kind: type[PlaneError], text: str
) -> None:
    error = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details="10.0.0.1: secret")
    back = from_rpc_error(error)
    assert type(back) is kind
    assert back.message == text


def test_details_of_somebody_else_are_not_taken_for_ours() -> None:
    status = status_pb2.Status(code=5)
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason="THEIRS", domain="googleapis.com"))
    for raw in (status.SerializeToString(), b"\xff\xff"):
        error = grpc.aio.AioRpcError(
            grpc.StatusCode.NOT_FOUND, grpc.aio.Metadata(), grpc.aio.Metadata((DETAILS_KEY, raw)), details="gone"
        )
        assert vars(from_rpc_error(error)) == vars(errors.NotFound("gone"))


def received(*details: tuple[str, bytes]) -> PlaneError:
    """Return our error for a NOT_FOUND status with these details, each a type of google.rpc and its bytes."""
    status = status_pb2.Status(code=5)
    for kind, value in details:
        status.details.add(type_url=f"type.googleapis.com/google.rpc.{kind}", value=value)
    return from_rpc_error(
        grpc.aio.AioRpcError(
            grpc.StatusCode.NOT_FOUND,
            grpc.aio.Metadata(),
            grpc.aio.Metadata((DETAILS_KEY, status.SerializeToString())),
            details="gone",
        )
    )


@pytest.mark.parametrize("kind", ["ErrorInfo", "BadRequest", "RetryInfo"])
def test_a_corrupt_detail_is_ignored(kind: str) -> None:
    info = error_details_pb2.ErrorInfo(reason="WHY", domain="taskplane").SerializeToString()
    assert vars(received((kind, b"\xff\xff\xff"))) == vars(errors.NotFound("gone"))
    assert vars(received((kind, b"\xff\xff\xff"), ("ErrorInfo", info))) == vars(errors.NotFound("gone", reason="WHY"))
