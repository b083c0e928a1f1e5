"""The page docs/first-agent.md, followed to the letter: each command is run and each file written, in their order."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.cli.command import PATIENCE, PROGRAM, Dev, dev, environment
from tests.repo.tree import ROOT

PAGE = (ROOT / "docs" / "first-agent.md").read_text()
# What stands before a block, its language and its content.
BLOCKS = re.compile(r"(?P<before>[^\n]*)\n\n```(?P<language>\w+)\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)


class Reader:
    """Somebody with two terminals who does what the page says."""

    def __init__(self, place: Path, stack: ExitStack) -> None:
        self._place = place
        self._stack = stack
        self._plane: Dev | None = None
        self._server: Iterator[str] = iter(())
        # What the last command printed; None: the server is to say something next.
        self._printed: str | None = None
        commands = place / "commands"
        commands.mkdir()
        for name, program in {"taskplane": PROGRAM, "python": PROGRAM[:1]}.items():
            (commands / name).write_text(f'#!/bin/sh\nexec {shlex.join(program)} "$@"\n')
            (commands / name).chmod(0o755)
        self._commands = commands

    def write(self, paragraph: str, content: str) -> None:
        """Puts a file in the place that the paragraph names first."""
        (name,) = re.findall(r"[Pp]ut this into `(\w+\.py)`|this into `(\w+\.py)`", paragraph)[0:1]
        (self._place / (name[0] or name[1])).write_text(content)
        self._printed = None

    def run(self, commands: str) -> None:
        """Runs what stands in one block, in the folder where the last block ended."""
        if commands.startswith("taskplane dev "):
            options = shlex.split(commands)[2:]
            self._plane = self._stack.enter_context(dev(*options, cwd=self._place, afresh=True))
            self._server = iter(self._plane.output)
            return
        env = environment({"TASKPLANE_URL": self._plane.url} if self._plane else {})
        env["PATH"] = f"{self._commands}:{env['PATH']}"
        script = f"set -eu\n{commands}pwd > {shlex.quote(str(self._commands / 'pwd'))}"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self._place,
            env=env,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"{commands}{done.stdout}{done.stderr}"
        self._place = Path((self._commands / "pwd").read_text().strip())
        self._printed = done.stdout + done.stderr

    def sees(self, wanted: str) -> None:
        """Finds each line of a block, in its order: in what the command just before printed, or else at the server."""
        printed, self._printed = self._printed, None
        for line in wanted.splitlines():
            if printed is None:
                assert any(line in said for said in self._server), f"the server never said {line!r}"
            else:
                assert line in printed
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
