"""A reader who follows a page of the documents to the letter, beginning in an empty folder.

The blocks of a page have these languages:

- `sh`: commands, typed in their order. A server keeps its terminal until another one is started there; the reader waits
  for other programs. A command that ends in `|| true` fails.
- `console`: commands with their output, also a conversation, in which lines after a prompt are typed.
- `text`: lines that must be seen in their order, in the output of the command just before, or else in the terminal of
  the server that was started last.
- any other language: a file, named by the paragraph before.

Only ports differ from the page: those of a plane are free ones, and so are the others of a page.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from signal import SIGINT
from typing import Final, TextIO, cast

from packaging.requirements import Requirement
from tests.cli.command import PATIENCE, PROGRAM, Dev, Output, dev, environment, taskplane
from tests.repo.tree import ROOT
from tests.support.ports import free_port

EXAMPLES: Final = ROOT / "docs" / "examples"
# The paragraph before a block, its language and its content.
BLOCKS: Final = re.compile(
    r"(?P<before>(?:^[^\n`][^\n]*\n|^`(?!``)[^\n]*\n)*)\n*^```(?P<language>\w*)\n(?P<content>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_FILE: Final = re.compile(r"`([\w-]+\.\w+)`")
_EXAMPLE: Final = re.compile(r"\]\(examples/([\w-]+\.\w+)\)")
_PORT: Final = re.compile(r"(?<=127\.0\.0\.1:)\d{4,5}\b|^\d{4,5}$")
_PROMPT: Final = re.compile(r"(?:you|answer)> ")
# Programs that run until they are stopped, and the text that they print when they are ready.
_SERVERS: Final = {"taskplane worker": "worker ready", "python a2a_server.py": "running on", "python own.py": "worker"}


class Reader:
    """A reader in a folder. `env` is the environment of all terminals; examples that a page links to are at hand."""

    def __init__(self, page: str, place: Path, stack: ExitStack, env: Mapping[str, str] | None = None) -> None:
        self._place = place
        self._stack = stack
        self._env = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **(env or {})}
        self._plane: Dev | None = None
        self._program: subprocess.Popen[str] | None = None
        self._server: Output | None = None
        self._ports: dict[str, str] = {}
        # The output of the last command; None: the next text is expected from the server.
        self._printed: str | None = None
        written = {_FILE.search(block["before"]) for block in BLOCKS.finditer(page) if block["language"] == "python"}
        own = {found[1] for found in written if found is not None}
        for example in set(_EXAMPLE.findall(page)) - own:
            (place / example).write_bytes((EXAMPLES / example).read_bytes())

    def follow(self, page: str, *, but: tuple[str, ...] = ()) -> None:
        """Follows each block of a page, except blocks that begin with one of `but`, and drawings, which have no
        language."""
        for block in BLOCKS.finditer(page):
            if not block["language"] or block["content"].startswith(but):
                continue
            match block["language"]:
                case "sh":
                    self.type(block["content"])
                case "console":
                    self.talk(block["content"])
                case "text":
                    self.see(block["content"])
                case _:
                    self.write(block["before"], block["content"])

    def write(self, paragraph: str, content: str) -> None:
        """Writes a file at the first path in the paragraph. A file of an example must have the same content."""
        named = _FILE.search(paragraph)
        assert named is not None, f"which file is this?\n{paragraph}\n{content}"
        if named[1] in _EXAMPLE.findall(paragraph):
            assert content == (EXAMPLES / named[1]).read_text()
        (self._place / named[1]).write_text(self._with_ports(content))
        self._printed = None

    def type(self, commands: str) -> None:
        """Types the commands of a block, one a line."""
        self._printed = ""
        for line in commands.splitlines():
            self._type(line)

    def talk(self, conversation: str) -> None:
        """Types the commands of a console, and compares the standard output of each with the lines of the page."""
        for said in re.split(r"^\$ ", conversation, flags=re.MULTILINE)[1:]:
            command, _, lines = said.partition("\n")
            typed = [line for line in lines.splitlines() if _PROMPT.match(line)]
            wanted = [line for line in lines.splitlines() if not _PROMPT.match(line)]
            name, *arguments = shlex.split(command)
            assert name == "taskplane", command
            stdin = "".join(f"{_PROMPT.sub('', line)}\n" for line in typed)
            done = taskplane(*arguments, env=self._client, cwd=self._place, stdin=stdin)
            shown = [line.rstrip() for line in done.stdout.splitlines()]
            assert shown == wanted, f"{command}\n{done.stdout}\n{done.stderr}"

    def see(self, wanted: str) -> None:
        """Finds each line of a block, in its order."""
        printed, self._printed = self._printed, None
        for line in wanted.splitlines():
            if printed is None:
                assert self._server is not None
                assert any(line in said for said in self._server), f"the server never said {line!r}"
            else:
                assert line in printed, printed
                printed = printed.partition(line)[2]

    @property
    def _client(self) -> dict[str, str]:
        return {**self._env, **({"TASKPLANE_URL": self._plane.url} if self._plane else {})}

    def _type(self, line: str) -> None:
        words = shlex.split(line.removesuffix(" || true"))
        env = dict(self._env)
        while re.match(r"\w+=", words[0]):
            name, _, value = words.pop(0).partition("=")
            env[name] = self._with_ports(value)
        match words:
            case ["cd", folder]:
                self._place /= folder
            case ["export", *variables]:
                self._env |= {name: self._with_ports(value) for name, _, value in (v.partition("=") for v in variables)}
            case ["pip", "install", *wanted]:
                for each in wanted:
                    assert not missing(Requirement(each)), f"{line}: {missing(Requirement(each))}"
            case ["taskplane", "dev", *options] if not line.endswith(" || true"):
                self._serve([self._with_ports(option) for option in options], env)
            case [program, name, *_] if words_of_start := _SERVERS.get(f"{program} {name}"):
                self._start([self._with_ports(word) for word in words], env, words_of_start)
            case ["taskplane", "dev", *options]:
                ports = ("--port", "0", "--grpc-port", "0")
                self._ran(line, taskplane("dev", *ports, *options, env=env, cwd=self._place))
            case ["taskplane", *arguments]:
                self._ran(line, taskplane(*arguments, env={**self._client, **env}, cwd=self._place))
            case ["python", *arguments]:
                done = subprocess.run(
                    [sys.executable, *arguments],
                    cwd=self._place,
                    env=environment(env),
                    capture_output=True,
                    text=True,
                    timeout=PATIENCE,
                    check=False,
                )
                self._ran(line, done)
            case _:
                raise AssertionError(f"the page has a command of another kind: {line}")

    def _serve(self, options: list[str], env: Mapping[str, str]) -> None:
        """Starts a plane. A running one is stopped by Ctrl-C before."""
        if self._plane is not None:
            self._plane.signal(SIGINT)
            self._plane.end()
        self._plane = self._stack.enter_context(dev(*options, cwd=self._place, env=env))
        self._server = self._plane.output

    def _start(self, words: list[str], env: Mapping[str, str], ready: str) -> None:
        """Starts another server, and waits until it prints that it is ready. A running one is stopped before."""
        if self._program is not None:
            self._program.send_signal(SIGINT)
            self._program.wait(PATIENCE)
        command = [*PROGRAM, *words[1:]] if words[0] == "taskplane" else [sys.executable, *words[1:]]
        process = self._stack.enter_context(
            subprocess.Popen(
                command,
                cwd=self._place,
                env=environment({**env, "TASKPLANE_WORKER_OPS_LISTEN": "127.0.0.1:0"}),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        self._stack.callback(process.kill)
        assert process.stdout is not None
        self._program, self._server, self._printed = process, Output(cast("TextIO", process.stdout)), None
        self.see(ready)

    def _ran(self, line: str, done: "subprocess.CompletedProcess[str]") -> None:
        said = done.stdout + done.stderr
        assert (done.returncode != 0) is line.endswith(" || true"), f"{line}\n{said}"
        self._printed = (self._printed or "") + said

    def _with_ports(self, text: str) -> str:
        """The text with free ports, or those of the plane, in place of the ports of the page."""

        def free(found: re.Match[str]) -> str:
            port = found[0]
            if self._plane is not None and port in ("8080", "50050"):
                address = self._plane.url if port == "8080" else self._plane.grpc
                return address.rpartition(":")[2]
            return self._ports.setdefault(port, str(free_port()))

        return _PORT.sub(free, text)


def missing(wanted: Requirement) -> str:
    """The requirement that `pip install` would have to install here; empty if all are installed."""
    try:
        found = distribution(wanted.name)
    except PackageNotFoundError:
        return wanted.name
    if not wanted.specifier.contains(found.version, prereleases=True):
        return str(wanted)
    if unknown := wanted.extras - set(found.metadata.get_all("Provides-Extra") or ()):
        return f"{wanted.name} has no {unknown}"
    needed = [Requirement(each) for each in found.requires or ()]
    extras = [(each, extra) for each in needed for extra in wanted.extras if each.marker]
    of_extras = [each for each, extra in extras if each.marker and each.marker.evaluate({"extra": extra})]
    return next((gap for each in of_extras if (gap := missing(Requirement(str(each).partition(";")[0])))), "")
