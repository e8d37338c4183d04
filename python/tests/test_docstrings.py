"""Completeness of the documentation of public names: examples, units and errors."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import types
from collections.abc import Iterator
from typing import Any

import anabranch

#: Least share of public names that have everything asked for.
SHARE = 0.95
#: Words of a unit, by the ends of names.
UNITS = {
    "_s": r"\bs\b|second",
    "_ms": r"\bms\b|millisecond",
    "_bps": r"bit/s",
    "_bytes": r"\b[Bb]ytes?\b",
}


def spaces() -> Iterator[tuple[str, Any]]:
    """Yield the modules whose public names are documented."""
    yield "anabranch", anabranch
    for name in sorted(anabranch.__all__):
        value = getattr(anabranch, name)
        if isinstance(value, types.ModuleType):
            yield f"anabranch.{name}", value


def public() -> dict[str, Any]:
    """Return public functions and classes, and public methods and properties of these."""
    found: dict[str, Any] = {}
    for prefix, space in spaces():
        for name in space.__all__:
            value = getattr(space, name)
            if not (inspect.isclass(value) or inspect.isroutine(value)):
                continue
            found[f"{prefix}.{name}"] = value
            for inner, member in vars(value).items() if inspect.isclass(value) else ():
                kinds = (property, classmethod, staticmethod)
                if not inner.startswith("_") and (
                    inspect.isfunction(member) or isinstance(member, kinds)
                ):
                    found[f"{prefix}.{name}.{inner}"] = member
    return found


def code_of(value: Any) -> str:
    """Return the source of a function, method or property; an empty text for a class."""
    if inspect.isclass(value):
        value = value.__dict__.get("__init__")
    value = getattr(value, "fget", None) or getattr(value, "__func__", value)
    try:
        return textwrap.dedent(inspect.getsource(value)) if inspect.isfunction(value) else ""
    except OSError:  # a function that Python has made, such as that of a dataclass
        return ""


def raised(value: Any) -> set[str]:
    """Return the names of the exceptions that a function itself raises."""
    source = code_of(value)
    nodes = ast.walk(ast.parse(source)) if source else iter(())
    calls = (node.exc for node in nodes if isinstance(node, ast.Raise) and node.exc)
    names = (call.func if isinstance(call, ast.Call) else call for call in calls)
    plain = {name.id for name in names if isinstance(name, ast.Name)}
    return {name for name in plain if name[0].isupper() and name != "NotImplementedError"}


def lacking(name: str, value: Any) -> list[str]:
    """Return what the documentation of a public name lacks."""
    text = inspect.getdoc(value) or ""
    found = []
    if not text:
        found.append("documentation")
    if ">>>" not in text:
        found.append("an example")
    # An example that is no test shows nothing.
    if ">>>" in text and all("+SKIP" in line for line in re.findall(r">>> .*", text)[1:]):
        found += ["an example that runs"] if "+SKIP" in text else []
    for end, unit in UNITS.items():
        if name.endswith(end) and not re.search(unit, text):
            found.append(f"the unit of {end}")
    if inspect.isclass(value) and issubclass(value, BaseException):
        return found
    found += [f"the error {error}" for error in sorted(raised(value)) if error not in text]
    return found


def test_nearly_all_public_names_have_units_errors_and_an_example() -> None:
    names = public()
    without = {name: lacks for name, value in names.items() if (lacks := lacking(name, value))}
    assert len(names) > 120
    assert len(without) <= (1 - SHARE) * len(names), without


def test_every_public_name_is_documented() -> None:
    assert [name for name, value in public().items() if not inspect.getdoc(value)] == []


def test_all_names_of_the_package_are_looked_at() -> None:
    names = public()
    for name in anabranch.__all__:
        value = getattr(anabranch, name)
        is_counted = f"anabranch.{name}" in names
        assert is_counted or isinstance(value, (types.ModuleType, str)), name


def test_what_is_missing_is_seen() -> None:
    class Wrong:
        """A class."""

        @property
        def delay_ms(self) -> float:
            """Delay.

            >>> 1
            1
            """
            raise KeyError("no delay")

    assert lacking("Wrong", Wrong) == ["an example"]
    assert lacking("Wrong.delay_ms", vars(Wrong)["delay_ms"]) == [
        "the unit of _ms",
        "the error KeyError",
    ]
