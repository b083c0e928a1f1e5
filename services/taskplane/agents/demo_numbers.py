"""The numeric parameters of the demo agent's commands, each with a range."""

from collections.abc import Sequence
from dataclasses import dataclass


class OutOfRange(Exception):
    """A number of a command is not in its range. The text is for the user."""


@dataclass(frozen=True, slots=True)
class Number:
    """A parameter of a command: name, default, maximum and minimum."""

    name: str
    default: int
    maximum: int
    minimum: int = 0

    def read(self, command: str, word: str) -> int:
        """Parse a word. Raise OutOfRange if it is not a whole number in the range."""
        try:
            number = int(word)
        except ValueError:
            # Not a number, or more digits than Python parses.
            number = -1
        if not self.minimum <= number <= self.maximum:
            given = word if len(word) <= 20 else f"{word[:20]}…"
            raise OutOfRange(
                f"{command}: {self.name} must be a whole number from {self.minimum:,} to {self.maximum:,}, not {given}."
            )
        return number


@dataclass(frozen=True, slots=True)
class Product:
    """The maximum of the product of a command's numbers, and the unit of the product."""

    maximum: int
    unit: str

    def check(self, command: str, names: Sequence[Number], numbers: Sequence[int]) -> None:
        """Raise OutOfRange if the product of `numbers` is greater than the maximum."""
        product = 1
        for number in numbers:
            product *= number
        if product > self.maximum:
            formula = " times ".join(each.name for each in names)
            raise OutOfRange(
                f"{command}: {formula} must be at most {self.maximum:,} {self.unit}, not {product:,};"
                " give smaller numbers."
            )


def read_numbers(command: str, rest: str, names: Sequence[Number], product: Product | None) -> tuple[int, ...]:
    """Return the numbers after a command; a missing number has its default. Raise OutOfRange for a wrong number."""
    words = rest.split()[: len(names)]
    numbers = [each.read(command, word) for each, word in zip(names, words, strict=False)]
    numbers += [each.default for each in names[len(words) :]]
    if product is not None:
        product.check(command, names, numbers)
    return tuple(numbers)
