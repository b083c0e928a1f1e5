"""The state that all parts of the reading of one request share."""

from collections.abc import Mapping

from taskplane.gateway.limits import MAX_VALUES
from taskplane.runtime.validation import WrongFields, invalid


class Reading(WrongFields):
    """The reading of one JSON request: its wrong fields, by JSON path, and what the conversion of its values counts."""

    __slots__ = ("_sent", "converted", "lenient", "max_values", "told", "values")

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
        # Members that the client calls by another name: their paths, and those that it used.
        self._sent: dict[str, str] = {}

    def call(self, path: str, sent: str) -> None:
        """Note that the client has sent the member at `path` at the path `sent`. Call it for outer members first."""
        self._sent[path] = sent

    def as_sent(self, fields: Mapping[str, str]) -> dict[str, str]:
        """Return wrong fields by the paths that the client used."""
        if not self._sent:
            return dict(fields)
        return {self._path_as_sent(path): rule for path, rule in fields.items()}

    def check(self) -> None:
        """Raise Invalid with all wrong fields, if there are any, by the paths that the client used."""
        if self.found:
            raise invalid(self.as_sent(self.found))

    def take_converted(self, at: str) -> list[str]:
        """Return the paths of numbers in the object at `at` that became texts, as they are in that object."""
        prefix = f"{at}." if at else ""
        taken = [path for path in self.converted if path.startswith(prefix)]
        self.converted = [path for path in self.converted if not path.startswith(prefix)]
        self.told += taken
        return [path.removeprefix(prefix) for path in taken]

    def _path_as_sent(self, path: str) -> str:
        for known, sent in reversed(self._sent.items()):
            if path.startswith(known) and path[len(known) : len(known) + 1] in ("", ".", "["):
                path = sent + path[len(known) :]
        return path
