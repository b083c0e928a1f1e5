"""What the orchard refuses."""

from taskplane.storage.dialects import Dialect
from taskplane.storage.guards import Guard


def guards(dialect: Dialect) -> list[Guard]:
    condition, message = "NEW.height < OLD.height", "a tree: it's never smaller"
    return [Guard("tree_grows", "tree", "BEFORE UPDATE", condition, message, ["height"])]
