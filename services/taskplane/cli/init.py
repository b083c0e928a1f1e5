"""`taskplane init`: a small agent with its test, to begin with."""

import keyword
import re
from importlib.resources import files
from pathlib import Path
from shlex import quote
from string import Template
from typing import Final

from taskplane.cli import exits
from taskplane.cli.output_file import unusable
from taskplane.cli.report import report_error
from taskplane.runtime.errors import Invalid

FILES: Final = ("agent.py", "test_agent.py", "README.md")
# Names that the template uses itself.
_TAKEN: Final = frozenset({"AgentCard", "AsyncIterator", "Change", "Complete", "Turn", "Working"})
_MOST: Final = 40


def init(folder: Path) -> int:
    """Write an agent, its test and a README into a folder, which is created if necessary; print the next steps.

    A file that is there already is refused, and nothing is written. Return the exit code.
    """
    try:
        name = name_of(folder)
        made = class_of(name)
        _write(folder, {"name": name, "class": made})
    except Invalid as error:
        return report_error(error)
    enter = f"  cd {quote(str(folder))}\n" if folder.resolve() != Path.cwd() else ""
    print(
        f"{folder} has an agent, {made} in agent.py, with a test and a README. Next:\n\n{enter}"
        f"  taskplane dev --agent agent:{made} --reload\n"
        '  taskplane chat -m "one two three"      in a second terminal\n'
        "  python -m pytest                       runs the test; needs pip install pytest"
    )
    return exits.OK


def name_of(folder: Path) -> str:
    """Return a name for an agent from the name of its folder: words of letters and digits with hyphens between them."""
    words = re.findall(r"[A-Za-z0-9]+", folder.resolve().name)
    return "-".join(words)[:_MOST].strip("-").lower() or "agent"


def class_of(name: str) -> str:
    """Return a class name for the agent `name`: valid in Python, and not used elsewhere in the file."""
    made = "".join(word[:1].upper() + word[1:] for word in name.split("-"))
    if made[0].isdigit():
        return f"Agent{made}"
    return f"{made}Agent" if made in _TAKEN or keyword.iskeyword(made) else made


def _write(folder: Path, names: dict[str, str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(folder, error) from error
    there = [name for name in FILES if (folder / name).exists() or (folder / name).is_symlink()]
    if there:
        raise Invalid(
            f"{folder} has {' and '.join(there)} already; nothing was overwritten.",
            reason="FILE_EXISTS",
            suggestion="Choose another folder:  taskplane init my-agent",
        )
    for name in FILES:
        text = Template((files("taskplane.cli") / "templates" / f"{name}.template").read_text()).substitute(names)
        try:
            with (folder / name).open("x") as target:
                target.write(text)
        except OSError as error:
            raise unusable(folder / name, error) from error
