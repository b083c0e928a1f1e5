"""The numbers that the commands of the demo agent take, each with its range."""

from collections.abc import Sequence
from dataclasses import dataclass


class OutOfRange(Exception):
    """A number of a command cannot be used; the text is for the user."""


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number by its name, with the default, and the least and the greatest that are allowed."""

    name: str
    default: int
    most: int
    least: int = 0

    def read(self, command: str, word: str) -> int:
        """Return the number that a word is. OutOfRange."""
        try:
            # Longer ones are too large in any case, and Python does not read all of them.
            number = int(word) if len(word) <= len(str(self.most)) else self.most + 1
        except ValueError:
            number = -1
        if not self.least <= number <= self.most:
            given = word if len(word) <= 20 else f"{word[:20]}…"
            raise OutOfRange(
                f"{command}: {self.name} must be a whole number from {self.least:,} to {self.most:,}, not {given}."
            )
        return number


@dataclass(frozen=True, slots=True)
class Product:
    """The greatest product of all numbers of a command, and its unit."""

    most: int
    unit: str

    def check(self, command: str, names: Sequence[Number], numbers: Sequence[int]) -> None:
        """Raise OutOfRange if it is greater."""
        product = 1
        for number in numbers:
            product *= number
        if product > self.most:
            formula = " times ".join(each.name for each in names)
            raise OutOfRange(
                f"{command}: {formula} must be at most {self.most:,} {self.unit}, not {product:,}; choose smaller ones."
            )


def read_numbers(command: str, rest: str, names: Sequence[Number], product: Product | None) -> tuple[int, ...]:
    """Return the numbers that follow a command, or the defaults of those that are missing. OutOfRange."""
    words = rest.split()[: len(names)]
    numbers = [each.read(command, word) for each, word in zip(names, words, strict=False)]
    numbers += [each.default for each in names[len(words) :]]
    if product is not None:
        product.check(command, names, numbers)
    return tuple(numbers)
