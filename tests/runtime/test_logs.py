"""The log: what is in a line, and what never is."""

import asyncio
import json
import logging
from collections.abc import Callable, Generator
from typing import Any

import grpc
import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from tests.runtime.conftest import ALICE, SAY, echo_services

from taskplane.runtime import logs
from taskplane.runtime.interceptors import Context
from taskplane.runtime.server import serving

Written = Callable[[], str]


@pytest.fixture
def written(capsys: pytest.CaptureFixture[str]) -> Generator[Written]:
    """What went to stderr since the last time one asked."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield lambda: capsys.readouterr().err
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


CANARY = "c4n4ry-c4n4ry"


@pytest.mark.parametrize(
    "text",
    [
        f"cannot open postgresql://user:{CANARY}@db:5432/plane",
        f"header Authorization: Bearer {CANARY}",
        f"{{'authorization': 'Basic {CANARY}'}}",
        f"sent bearer {CANARY} along",
        f"token={CANARY}",
        f'{{"access_token": "{CANARY}"}}',
        f"internal_secret: {CANARY}",
        f"password = {CANARY}",
        f"GET /hook?a=1&key={CANARY}&b=2",
        f"X-Api-Key: {CANARY}",
    ],
)
def test_a_credential_is_never_written(written: Written, text: str) -> None:
    for human in (True, False):
        logs.setup(human=human)
        logger = logging.getLogger("test.redaction")
        logger.info("%s", text)
        try:
            raise ValueError(text)
        except ValueError:
            logger.exception("broken", extra={"reason": text})
    text = written()
    assert "ValueError" in text
    assert CANARY not in text


@pytest.mark.parametrize(
    "text", ["http://host:8080/path is up", "12 tokens counted", "the key is reused", "task a1b2 is canceled"]
)
def test_other_text_is_left_alone(text: str) -> None:
    assert logs.redact(text) == text


def test_a_line_is_json_with_the_ids_of_the_call_and_fields_of_the_list_only(written: Written) -> None:
    logs.setup("debug", human=False)
    request, task = logs.request_id.set("r-1"), logs.task_id.set("t-1")
    try:
        logging.getLogger("test.json").debug(
            "a\nb", extra={"method": "/x/Y", "ms": 1.5, "payload": "hidden", "code": None}
        )
    finally:
        logs.request_id.reset(request)
        logs.task_id.reset(task)
    (text,) = written().splitlines()
    line = json.loads(text)
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "DEBUG",
        "logger": "test.json",
        "message": "a\nb",
        "request_id": "r-1",
        "task_id": "t-1",
        "method": "/x/Y",
        "ms": 1.5,
    }


def test_a_text_that_utf_8_cannot_spell_is_in_the_log_as_well(written: Written) -> None:
    """P9: it may be that of the fault of an agent."""
    logs.setup(human=False)
    logging.getLogger("test.line").error("half \ud800 of a pair")
    (line,) = written().splitlines()
    assert json.loads(line)["message"] == "half \ud800 of a pair"


def test_a_line_for_humans_is_one_line(written: Written) -> None:
    logs.setup(human=True)
    logging.getLogger("test.human").info("hello", extra={"count": 3})
    text = written()
    assert text.count("\n") == 1
    assert "hello" in text
    assert "count=" in text


def test_below_the_level_nothing_is_written_and_outside_a_terminal_lines_are_json(written: Written) -> None:
    logs.setup("WARNING")
    logging.getLogger("test.level").info("quiet")
    logging.getLogger("test.level").warning("loud")
    (text,) = written().splitlines()
    assert json.loads(text)["message"] == "loud"


def test_request_ids_differ() -> None:
    made = {logs.new_request_id() for _ in range(1_000)}
    assert len(made) == 1_000
    assert {len(each) for each in made} == {16}


def test_a_long_text_loses_its_middle_and_no_credential_shows_at_the_cut(written: Written) -> None:
    """P9: an exception of some megabytes would hold the event loop up."""
    half = logs.LONGEST // 2
    # The end begins in the middle of the credential.
    long = "first " + "xxx " * (logs.LONGEST // 4) + f"\npassword={CANARY}\n" + "y" * (half - 16) + "\nlast"
    for human in (True, False):
        logs.setup(human=human)
        try:
            raise ValueError(long)
        except ValueError:
            logging.getLogger("test.long").exception("%s", long)
        line = written()
        assert "first xxx" in line and "characters left out" in line and "last" in line
        assert len(line) < 3 * logs.LONGEST
        assert CANARY[-8:] not in line


@pytest.mark.parametrize("space", [" ", "\n"])
@pytest.mark.parametrize(
    ("before", "after"),
    [("postgresql://user:", "@db/plane"), ("password = ", ""), ("{'authorization': 'Bearer ", "'}")],
)
@pytest.mark.parametrize("at_the_end", [False, True])
def test_a_credential_that_a_cut_goes_through_is_not_written(
    written: Written, space: str, before: str, after: str, at_the_end: bool
) -> None:
    """P9: wherever it is cut, also in a text of one line, whose end is kept."""
    logs.setup(human=True)
    half = logs.LONGEST // 2
    named = f"{before}{CANARY}{after}"
    for offset in range(1, len(named)):
        if at_the_end:
            end = f"{named}{space}".ljust(half + offset - 5, "z") + " last"
            long = f"first{space}" + f"word{space}" * half + end
        else:
            long = f"first{space}".ljust(half - offset - 1, "z") + space + named + f"{space}word" * half + " last"
        logging.getLogger("test.cut").error("%s", long)
        line = written()
        assert "first" in line and line.endswith("last\n")
        assert CANARY[:4] not in line and CANARY[-4:] not in line


class Seen(logging.Handler):
    """A handler that counts the records with a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.records = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.records += self.text in record.getMessage()


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
async def test_a_client_that_leaves_before_its_reply_is_no_error(written: Written, level: str) -> None:
    """gRPC itself writes the reply, and logs that it could not."""

    async def say(request: BytesValue, context: Context) -> BytesValue:
        return BytesValue(value=bytes(3_000_000))

    logs.setup(level, human=False)
    seen = Seen("ExecuteBatchError")
    logging.getLogger().addHandler(seen)
    slow = [("grpc.http2.bdp_probe", 0)]
    async with (
        serving(echo_services(say, default=ALICE), "127.0.0.1:0", grace=0.1) as server,
        grpc.aio.insecure_channel(server.address, options=slow) as channel,
        asyncio.timeout(10),
    ):
        made: Any = channel
        # A call may also be cancelled, about which gRPC logs nothing.
        while not seen.records:
            call = made.unary_stream(SAY)(b"")
            await call.initial_metadata()
            call.cancel()
            await asyncio.sleep(0.01)
    assert (seen.text in written()) == (level == "DEBUG")
