"""What this server adds to the metadata of tasks and messages that it shows, for tests that compare them whole."""

from typing import Any

_OURS = "taskplane.dev/"


def without_additions(shown: Any) -> Any:
    """Copy JSON without the additions, and without metadata that is empty then."""
    if isinstance(shown, list):
        return [without_additions(one) for one in shown]
    if not isinstance(shown, dict):
        return shown
    kept: dict[str, Any] = {}
    for key, value in shown.items():
        if key == "metadata" and isinstance(value, dict):
            value = {name: one for name, one in value.items() if not name.startswith(_OURS)}
            if not value:
                continue
        kept[key] = without_additions(value)
    return kept
