"""Settings of a process: one frozen dataclass, read from the environment by this module only.

A field `lease_ttl` loaded with the prefix "TASKPLANE_TASKS_" is the variable TASKPLANE_TASKS_LEASE_TTL. Defaults live
in the dataclass and nowhere else. An unknown variable that begins with TASKPLANE_ is an error.
"""

import dataclasses
import difflib
import os
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin

from taskplane.runtime.bounds import broken_rules, refuse
from taskplane.runtime.errors import Invalid

T = TypeVar("T")

FAILPOINTS: Final = "TASKPLANE_FAILPOINTS"

_PREFIX: Final = "TASKPLANE_"
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})


class Settings:
    """The base of the settings of each process: a value that cannot work raises Invalid `BAD_SETTING`.

    The rule of a field stands in its type, see `bounds`.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        refuse(broken_rules(self) or self.contradictions())

    def contradictions(self) -> Mapping[str, str]:
        """Return the rules that a combination of fields breaks, each under the name of one of them. Called only if
        every single field is valid."""
        return {}


def environment() -> Mapping[str, str]:
    """Return the process's environment."""
    return os.environ


def load(cls: type[T], prefix: str, environ: Mapping[str, str] | None = None, **overrides: Any) -> T:
    """Return a `cls` object, read from the variables with `prefix`. An override that is not None, such as a flag of a
    command, replaces a variable.

    Fields may be str, int, float, bool, Path, tuple[str, ...] (separated by commas), Literal of strings, or any of
    these or None (empty means None). Invalid: one error names all variables that are missing or unreadable; if there
    are none, all that are out of range.
    """
    environ = environment() if environ is None else environ
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for field in dataclasses.fields(typing.cast("Any", cls)):
        variable = prefix + field.name.upper()
        if (given := overrides.pop(field.name, None)) is not None:
            values[field.name] = given
        elif variable in environ:
            try:
                values[field.name] = _parsed(hints[field.name], environ[variable])
            except ValueError as error:
                wrong[variable] = str(error)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            wrong[variable] = "is required"
    if overrides:
        raise TypeError(f"{cls.__name__} has no field {', '.join(overrides)}")
    refuse(wrong)
    try:
        return cls(**values)
    except Invalid as error:
        refuse({prefix + name.upper(): what for name, what in error.fields.items()})
        raise


def variables(cls: type[Any], prefix: str) -> list[str]:
    """Return the names of the variables of `cls`."""
    return [prefix + field.name.upper() for field in dataclasses.fields(cls)]


def check_unknown(
    environ: Mapping[str, str] | None,
    known: Iterable[tuple[type[Any], str]],
    also: Iterable[str] = (),
) -> None:
    """Raise Invalid if a TASKPLANE_ variable belongs to no (class, prefix) in `known` and is not in `also`."""
    environ = environment() if environ is None else environ
    names = {FAILPOINTS, *also}
    for cls, prefix in known:
        names.update(variables(cls, prefix))
    wrong: dict[str, str] = {}
    for name in sorted(environ):
        if name.startswith(_PREFIX) and name not in names:
            near = difflib.get_close_matches(name[len(_PREFIX) :], sorted(each[len(_PREFIX) :] for each in names), n=1)
            wrong[name] = f"did you mean {_PREFIX}{near[0]}?" if near else "no setting has this name"
    if wrong:
        raise Invalid(
            "unknown settings: " + "; ".join(f"{name} ({what})" for name, what in wrong.items()),
            reason="UNKNOWN_SETTING",
            suggestion="correct the name or unset the variable",
            fields=wrong,
        )


def _parsed(hint: Any, text: str) -> Any:
    origin = get_origin(hint)
    if origin is Union or origin is types.UnionType:
        if text == "":
            return None
        (hint,) = (each for each in get_args(hint) if each is not type(None))
        return _parsed(hint, text)
    if origin is Literal:
        for word in get_args(hint):
            if text.lower() == str(word).lower():
                return word
        raise ValueError(f"must be one of {', '.join(map(str, get_args(hint)))}")
    if origin is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return _plain(hint, text)


def _plain(hint: Any, text: str) -> Any:
    if hint is str:
        return text
    if hint is Path:
        return Path(text).expanduser()
    if hint is bool:
        if text.lower() not in _TRUE | _FALSE:
            raise ValueError("must be true or false")
        return text.lower() in _TRUE
    if hint in (int, float):
        try:
            return hint(text)
        except ValueError:
            raise ValueError(f"must be {'a whole number' if hint is int else 'a number'}") from None
    raise TypeError(f"settings cannot have fields of type {hint}")
