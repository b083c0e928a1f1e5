"""The `llm` agent: a language model that answers directly, or works on a task with tools and makes artifacts.

`LanguageModel` needs the extra `llm`; the settings do not.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taskplane.agents.llm.language_model import LanguageModel as LanguageModel

MISSING = "agents of language models need the extra `llm`: pip install 'taskplane[llm]'"


def __getattr__(name: str) -> Any:
    """Import `LanguageModel` when it is asked for. ImportError: the extra is not installed."""
    if name != "LanguageModel":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from taskplane.agents.llm.language_model import LanguageModel
    except ModuleNotFoundError as error:
        raise ImportError(f"{MISSING} ({error})") from error
    return LanguageModel
