"""The state that all parts of the reading of one request share."""

from taskplane.gateway.limits import MAX_VALUES
from taskplane.runtime.validation import WrongFields


class Reading(WrongFields):
    """The reading of one JSON request: its wrong fields, by JSON path, and what the conversion of its values counts."""

    __slots__ = ("converted", "lenient", "max_values", "told", "values")

    def __init__(self, *, lenient: bool = False) -> None:
        """`lenient`: values that cannot be stored are converted, as those of agents are."""
        super().__init__()
        self.lenient = lenient
        # The paths of numbers that became texts: those not listed in any metadata yet, and the others.
        self.converted: list[str] = []
        self.told: list[str] = []
        # The number of such values so far, and its current limit.
        self.values = 0
        self.max_values = MAX_VALUES

    def take_converted(self, at: str) -> list[str]:
        """Return the paths of numbers in the object at `at` that became texts, as they are in that object."""
        prefix = f"{at}." if at else ""
        taken = [path for path in self.converted if path.startswith(prefix)]
        self.converted = [path for path in self.converted if not path.startswith(prefix)]
        self.told += taken
        return [path.removeprefix(prefix) for path in taken]
