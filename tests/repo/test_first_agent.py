"""The page docs/first-agent.md, followed to the letter: each command is run and each file written, in their order."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.cli.command import PATIENCE, dev, environment, taskplane
from tests.repo.tree import ROOT

PAGE = (ROOT / "docs" / "first-agent.md").read_text()
# What stands before a block, its language and its content.
BLOCKS = re.compile(r"(?P<before>[^\n]*)\n\n```(?P<language>\w+)\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)


class Reader:
    """Somebody with two terminals who does what the page says."""

    def __init__(self, place: Path, stack: ExitStack) -> None:
        self._place = place
        self._stack = stack
        self._url = ""
        self._server: Iterator[str] = iter(())
        # What the last command printed; None: the server is to say something next.
        self._printed: str | None = None

    def write(self, paragraph: str, content: str) -> None:
        """Puts a file in the place that the paragraph names first."""
        (name, *_) = re.findall(r"this into `(\w+\.py)`", paragraph)
        (self._place / name).write_text(content)
        self._printed = None

    def run(self, commands: str) -> None:
        """Runs the commands of a block, one a line."""
        self._printed = ""
        for line in commands.splitlines():
            command = line.removesuffix(" || true")
            match shlex.split(command):
                case ["cd", folder]:
                    self._place /= folder
                case ["taskplane", "dev", *options]:
                    plane = self._stack.enter_context(dev(*options, cwd=self._place))
                    self._url, self._server = plane.url, iter(plane.output)
                case ["taskplane", *arguments]:
                    env = {"TASKPLANE_URL": self._url} if self._url else {}
                    self._ran(line, taskplane(*arguments, env=env, cwd=self._place))
                case ["python", *arguments]:
                    done = subprocess.run(
                        [sys.executable, *arguments],
                        cwd=self._place,
                        env=environment(),
                        capture_output=True,
                        text=True,
                        timeout=PATIENCE,
                        check=False,
                    )
                    self._ran(line, done)
                case _:
                    raise AssertionError(f"the page has a command of another kind: {line}")

    def _ran(self, line: str, done: "subprocess.CompletedProcess[str]") -> None:
        said = done.stdout + done.stderr
        assert (done.returncode != 0) is line.endswith(" || true"), f"{line}\n{said}"
        self._printed = (self._printed or "") + said

    def sees(self, wanted: str) -> None:
        """Finds each line of a block, in its order: in what the command just before printed, or else at the server."""
        printed, self._printed = self._printed, None
        for line in wanted.splitlines():
            if printed is None:
                assert any(line in said for said in self._server), f"the server never said {line!r}"
            else:
                assert line in printed, printed
                printed = printed.partition(line)[2]


def test_the_page_of_the_first_agent_is_true_to_the_letter(tmp_path: Path) -> None:
    """P14: init, dev, edit, reload, chat, a broken edit, and a fault that a test finds and the terminal shows."""
    with ExitStack() as stack:
        reader = Reader(tmp_path, stack)
        for block in BLOCKS.finditer(PAGE):
            match block["language"]:
                case "sh":
                    reader.run(block["content"])
                case "python":
                    reader.write(block["before"], block["content"])
                case _:
                    reader.sees(block["content"])
