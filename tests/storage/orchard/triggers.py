"""What the orchard refuses."""

from taskplane.storage.dialects import Dialect
from taskplane.storage.triggers import Trigger


def triggers(dialect: Dialect) -> list[Trigger]:
    condition, message = "NEW.height < OLD.height", "a tree: it's never smaller"
    return [Trigger("tree_grows", "tree", "BEFORE UPDATE", condition, message, ["height"])]
