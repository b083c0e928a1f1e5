"""Random requests of A2A over JSON-RPC and REST, in both versions. The variables are those of `test_fuzz`."""

import asyncio
import os
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from tests.support.thorough import THOROUGH
from tests.system.fuzz_a2a import FORMS, MARK, A2ARequests
from tests.system.fuzz_answers import BOUND, asked, described
from tests.system.fuzz_bodies import Pool
from tests.system.fuzz_cases import Case
from tests.system.fuzz_verdicts import Verdict
from tests.system.plane import Plane, running
from tests.system.test_fuzz import AGENTS_FAULTS, BLOCKED, SETTINGS
from tests.system.untouched import failures, no_streams
from tests.system.wire import client, send, until

SEED: Final = os.environ.get("FUZZ_SEED", "1")
MANY: Final = int(os.environ.get("FUZZ_REQUESTS", "20000" if THOROUGH else "2000"))
FEW: Final = 300
AT_ONCE: Final = 6


@pytest.mark.timeout(1800 if THOROUGH else 300)
@pytest.mark.parametrize(
    "requests", [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.more)]
)
async def test_any_request_of_a2a_gets_an_answer_of_its_version_and_a_refused_one_is_not_stored(
    tmp_path: Path, requests: int
) -> None:
    """S1, T1; a2a I1, I6, I9, I10, B2, B7, B18, K10: no failure of the server, no wait, errors in the form of binding
    and version, and results that official clients read. Nothing of a refused message is in a store."""
    async with running("one", tmp_path, SETTINGS) as plane:
        made = A2ARequests(SEED, Pool())
        statuses: Counter[tuple[str, int]] = Counter()
        reasons: Counter[str] = Counter()
        slow: list[tuple[float, Case]] = []
        faults: list[str] = []
        refused: set[bytes] = set()
        numbers = iter(range(requests))

        async def work() -> None:
            for number in numbers:
                sent = made.make(number)
                answer = await asked(plane, sent.case)
                made.pool.learn(answer.body)
                verdict = Verdict(sent, answer)
                statuses[sent.form, answer.status] += 1
                reasons[verdict.reason or str(answer.status)] += 1
                slow.append((answer.seconds, sent.case))
                if verdict.wrong:
                    faults.append(described(tmp_path, sent.case, f"{sent.form} {sent.operation}: {verdict.wrong}"))
                if verdict.refused and answer.whole and not sent.case.left:
                    refused.add(sent.mark)

        await asyncio.gather(*[work() for _ in range(AT_ONCE)])
        for form in (*FORMS, ""):
            print(form or "(changed)", {at[1]: statuses[at] for at in sorted(statuses) if at[0] == form})
        print(f"reasons: {dict(reasons.most_common(20))}")
        slow.sort(key=lambda each: -each[0])
        print(f"slowest: {[(round(seconds, 2), case.number) for seconds, case in slow[:3]]}; refused: {len(refused)}")
        for seconds, case in slow:
            if seconds > BOUND and (alone := min([(await asked(plane, case)).seconds for _ in range(3)])) > BOUND:
                faults.append(described(tmp_path, case, f"{seconds:.1f} s, and {alone:.1f} s alone"))
        await plane.ready()
        async with client(plane.url) as http:
            await until(lambda: no_streams(http))
            assert (await send(http, "hello"))["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert not faults, "\n".join(faults)
        kept = marks(plane)
        assert kept, "no message was stored"
        assert len(refused) > requests / 10
        assert refused & kept == set()
        # A failed agent is not a fault of the plane.
        assert [line for line in failures(plane) if AGENTS_FAULTS not in line] == []
        assert BLOCKED not in (tmp_path / "dev.log").read_text(errors="replace")


def marks(plane: Plane) -> set[bytes]:
    """The marks of the messages that the stores hold."""
    found: set[bytes] = set()
    for path, table in ((plane.tasks_db, "event"), (plane.sessions_db, "entry")):
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            for (payload,) in database.execute(f"SELECT payload FROM {table} WHERE payload IS NOT NULL"):
                found.update(MARK.findall(payload))
        finally:
            database.close()
    return found
