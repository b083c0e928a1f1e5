"""Who may call: the same answers for unary calls and streams, over a socket and in process."""

import base64
import json
from collections.abc import Awaitable, Callable

import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from tests.runtime.conftest import ALICE, ROBOT, Dial, EchoStub, as_alice, echo_services

from taskplane.runtime.channel import client
from taskplane.runtime.errors import PermissionDenied, PlaneError, Unauthenticated
from taskplane.runtime.identity import PRINCIPAL_KEY, PrincipalSigner
from taskplane.runtime.interceptors import Context
from taskplane.runtime.policy import Access
from taskplane.runtime.principal import Principal, current

HELLO = BytesValue(value=b"hello")
SECRET = b"s3cret"
Shape = Callable[..., Awaitable[object]]


@pytest.fixture(params=["unary", "stream"])
def call(request: pytest.FixtureRequest) -> Shape:
    async def unary(stub: EchoStub, **options: object) -> object:
        return await stub.Say(HELLO, **options)

    async def stream(stub: EchoStub, **options: object) -> object:
        return [reply async for reply in stub.Tell(HELLO, **options)]

    return unary if request.param == "unary" else stream


async def refusal(call: Shape, stub: EchoStub, **options: object) -> tuple[type[PlaneError], str]:
    with pytest.raises(PlaneError) as failed:
        await call(stub, **options)
    return type(failed.value), failed.value.reason


async def test_a_method_without_a_line_in_the_policy_is_refused_to_everyone(dial: Dial, call: Shape) -> None:
    async with dial(echo_services(access=None)) as channel:
        robot = EchoStub(client(channel, identity=ROBOT))
        assert await refusal(call, robot) == (PermissionDenied, "NO_POLICY")


async def test_a_service_method_is_for_services_only(dial: Dial, call: Shape) -> None:
    async with dial(echo_services(access=Access.SERVICE)) as channel:
        assert await refusal(call, as_alice(channel)) == (PermissionDenied, "SERVICE_ONLY")
        await call(EchoStub(client(channel, identity=ROBOT)))


async def test_a_method_for_operators_is_for_them_only(dial: Dial, call: Shape) -> None:
    """V3: neither for users nor for services; that a caller may operate travels with its principal."""
    async with dial(echo_services(access=Access.OPERATOR)) as channel:
        for who in (ALICE, ROBOT):
            assert await refusal(call, EchoStub(client(channel, identity=who))) == (PermissionDenied, "OPERATORS_ONLY")
        await call(EchoStub(client(channel, identity=ALICE._replace(operator=True))))


async def test_without_a_secret_calls_without_a_principal_are_made_by_the_default(dial: Dial) -> None:
    seen: list[Principal | None] = []

    async def say(request: BytesValue, context: Context) -> BytesValue:
        seen.append(current())
        return request

    async with dial(echo_services(say, default=ALICE)) as channel:
        await EchoStub(channel).Say(HELLO)
        await EchoStub(client(channel, identity=ROBOT)).Say(HELLO)
    assert seen == [ALICE, ROBOT]


async def test_without_a_default_calls_without_a_principal_are_unauthenticated(dial: Dial, call: Shape) -> None:
    async with dial(echo_services()) as channel:
        with pytest.raises(Exception, match="no principal") as failed:
            await call(EchoStub(channel))
        assert failed.value.code().name == "UNAUTHENTICATED"  # type: ignore[attr-defined]


async def test_a_public_method_needs_no_principal_and_keeps_one_that_is_given(dial: Dial) -> None:
    seen: list[Principal | None] = []

    async def say(request: BytesValue, context: Context) -> BytesValue:
        seen.append(current())
        return request

    async with dial(echo_services(say, access=Access.PUBLIC)) as channel:
        await EchoStub(channel).Say(HELLO)
        await as_alice(channel).Say(HELLO)
    assert seen == [None, ALICE]


async def test_with_a_secret_only_signed_principals_count(dial: Dial, call: Shape) -> None:
    async with dial(echo_services(secret=SECRET, default=ALICE)) as channel:
        await call(as_alice(channel, secret=SECRET))
        assert await refusal(call, as_alice(channel)) == (Unauthenticated, "BAD_SIGNATURE")
        assert await refusal(call, as_alice(channel, secret=b"other")) == (Unauthenticated, "BAD_SIGNATURE")
        with pytest.raises(Exception, match="no principal") as failed:
            await call(EchoStub(channel))
        assert failed.value.code().name == "UNAUTHENTICATED"  # type: ignore[attr-defined]


_FORGED = tuple(
    (name, "bob")
    for name in ("x-user-id", "user_id", "x-tenant", "x-agent-name", "x-forwarded-user", "authorization", "principal")
)


async def test_no_other_name_in_metadata_makes_or_changes_a_principal(dial: Dial) -> None:
    """S2: neither alone nor beside one that is signed, nor does a second one that is not."""
    seen: list[Principal | None] = []

    async def say(request: BytesValue, context: Context) -> BytesValue:
        seen.append(current())
        return request

    signed = PrincipalSigner(SECRET).write(ALICE)
    unsigned = PrincipalSigner(b"").write(ROBOT)
    async with dial(echo_services(say, secret=SECRET)) as channel:
        stub = EchoStub(channel)
        with pytest.raises(Exception, match="no principal"):
            await stub.Say(HELLO, metadata=_FORGED)
        await stub.Say(HELLO, metadata=(*_FORGED, (PRINCIPAL_KEY, signed), *_FORGED))
        await stub.Say(HELLO, metadata=((PRINCIPAL_KEY, unsigned), (PRINCIPAL_KEY, signed)))
        with pytest.raises(Exception, match="not signed"):
            await stub.Say(HELLO, metadata=((PRINCIPAL_KEY, signed), (PRINCIPAL_KEY, unsigned)))
    assert seen == [ALICE, ALICE]


async def test_a_public_method_refuses_a_forged_principal_too(dial: Dial, call: Shape) -> None:
    async with dial(echo_services(secret=SECRET, access=Access.PUBLIC)) as channel:
        assert await refusal(call, as_alice(channel)) == (Unauthenticated, "BAD_SIGNATURE")


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "value", ["", "%", "AAAA", encoded([]), encoded({"t": "a"}), encoded({"t": 1, "o": 2, "a": 3}), encoded(None)]
)
async def test_a_principal_that_cannot_be_read_is_unauthenticated(dial: Dial, value: str) -> None:
    async with dial(echo_services(default=ALICE)) as channel:
        with pytest.raises(Exception, match="cannot be parsed"):
            await EchoStub(channel).Say(HELLO, metadata=((PRINCIPAL_KEY, value),))


def test_a_sealed_principal_is_ascii_and_comes_back_whole() -> None:
    seal = PrincipalSigner(SECRET)
    for principal in (ALICE, ROBOT, Principal("t\u00e4", "o w\n", "a.b\u2603")):
        assert seal.write(principal).isascii()
        assert seal.write(principal).isprintable()
        assert PrincipalSigner(SECRET).read(seal.write(principal)) == principal


def test_no_change_to_a_sealed_principal_is_accepted() -> None:
    sealed = PrincipalSigner(SECRET).write(ALICE)
    reader = PrincipalSigner(SECRET)
    payload, _, signature = sealed.partition(".")
    forged = PrincipalSigner(b"").write(ROBOT)
    for other in (
        payload,
        f"{payload}.",
        f".{signature}",
        f"{forged}.{signature}",
        sealed[:-1],
        sealed + "A",
        sealed * 2,
    ):
        with pytest.raises(Unauthenticated):
            reader.read(other)
    assert reader.read(sealed) == ALICE
