"""The page of workers is followed to the letter."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.command import PATIENCE, PROGRAM, Dev, dev, environment, taskplane
from tests.repo.tree import ROOT

EXAMPLES = ROOT / "docs" / "examples"
PAGE = (ROOT / "docs" / "workers.md").read_text()


def blocks(language: str) -> list[str]:
    """The blocks of the page in a language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@contextmanager
def started(plane: Dev, folder: Path, how: str) -> Generator[None]:
    """A worker that is ready, started by the command of the page or by its program."""
    if how == "command":
        words = [*PROGRAM, *shlex.split(blocks("sh")[1].replace("127.0.0.1:50050", plane.grpc))[1:]]
    else:
        (folder / "program.py").write_text(blocks("python")[0].replace("127.0.0.1:50050", plane.grpc))
        words = [sys.executable, "program.py"]
    env = environment({"TASKPLANE_WORKER_OPS_LISTEN": "127.0.0.1:0"})
    log = folder / "log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            words, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as worker,
    ):
        assert worker.stdout is not None
        for line in worker.stdout:
            output.write(line)
            if "worker ready" in line:
                break
        try:
            assert worker.poll() is None, log.read_text()
            yield
        finally:
            worker.terminate()
            worker.communicate(timeout=PATIENCE)
        assert worker.returncode == 0


@pytest.mark.parametrize("how", ["command", "program"])
def test_what_the_page_of_workers_says_happens(how: str, tmp_path: Path) -> None:
    """P1, C8: the card is the file that it names; both ways to start a worker answer as the page shows."""
    assert blocks("json")[0] == (EXAMPLES / "reporter-card.json").read_text()
    for file in ("reporter-card.json", "reporter.py"):
        shutil.copy(EXAMPLES / file, tmp_path)
    (talk,) = blocks("console")
    command, _, answer = talk.removeprefix("$ ").partition("\n")
    start = shlex.split(blocks("sh")[0])[2:]
    with dev(*start, cwd=tmp_path) as plane, started(plane, tmp_path, how):
        done = taskplane(*shlex.split(command)[1:], env={"TASKPLANE_URL": plane.url})
        assert done.stdout.strip() == answer.strip(), done.stderr
