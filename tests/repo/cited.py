"""The tests that cite the numbers of a list, and the tables of a page that shows the list with its tests."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from tests.repo.tree import Test, name, tests

IN_NAME: Final = re.compile(r"^test_([tmripscvwb][1-9]\d?)_")
"""The number with which the name of a test may begin."""

# Folders of tests of whole processes, the broadest first. Other tests are listed if these folders have none.
_NEAREST_TO_USERS: Final = ("peer", "system", "scenarios", "page", "gateway", "worker")


def holders(numbers: Callable[[Test], set[str]]) -> dict[str, list[Test]]:
    """Return the tests of each number, where `numbers` returns those that a test cites."""
    found: defaultdict[str, list[Test]] = defaultdict(list)
    for test in tests():
        for number in numbers(test):
            found[number].append(test)
    return {number: sorted(where, key=lambda test: (name(test.path), test.name)) for number, where in found.items()}


def tables(
    what: str,
    chapters: Mapping[str, str],
    words: Mapping[str, str],
    held: Mapping[str, Sequence[Test]],
    without: Mapping[str, str] | None = None,
    *,
    heading: str = "##",
) -> Iterator[str]:
    """Yield the lines of a table for each chapter, by the letter of its numbers: the number, its words, the number of
    its tests and two of them, or why it has none (`without`)."""
    cited = Counter(test for where in held.values() for test in where)
    for letter, title in chapters.items():
        chapter = [number for number in words if number[0] == letter]
        if not chapter:
            continue
        yield from (f"{heading} {title}\n", f"| | {what} | tests | two of them |", "|---|---|---|---|")
        for number in chapter:
            found = held.get(number, ())
            shown = _telling(found, cited) if found else (without or {}).get(number, "")
            yield f"| {number} | {words[number]} | {_counted(found)} | {shown} |"
        yield ""


def _counted(found: Sequence[Test]) -> str:
    more = sum(test.command != "test" for test in found)
    return f"{len(found) - more} + {more}" if more else str(len(found))


def _telling(found: Sequence[Test], cited: Mapping[Test, int]) -> str:
    """Return two tests: the nearest to users, and of those the tests with the fewest other numbers."""

    def rank(test: Test) -> tuple[int, int]:
        folder = name(test.path).split("/")[1]
        nearest = _NEAREST_TO_USERS.index(folder) if folder in _NEAREST_TO_USERS else len(_NEAREST_TO_USERS)
        return nearest, cited[test]

    return "<br>".join(
        f"`{name(test.path).removeprefix('tests/').removesuffix('.py')}`: {_in_words(test)}"
        for test in sorted(found, key=rank)[:2]
    )


def _in_words(test: Test) -> str:
    words = IN_NAME.sub("", test.name).removeprefix("test_").replace("_", " ")
    return words if test.command == "test" else f"{words}*"
