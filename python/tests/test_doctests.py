"""Examples of the documentation, and their completeness."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import types
from collections.abc import Iterator
from typing import Any

import anabranch
import pytest


def _modules() -> list[str]:
    names = [info.name for info in pkgutil.iter_modules(anabranch.__path__)]
    return ["anabranch", *(f"anabranch.{name}" for name in names if name != "_native")]


@pytest.mark.parametrize("name", _modules())
def test_examples_give_the_output_that_they_show(name: str) -> None:
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert failed == 0


def _public() -> Iterator[tuple[str, Any]]:
    """Yield public functions, classes and their public methods and properties."""
    spaces: list[tuple[str, types.ModuleType]] = [
        ("anabranch", anabranch),
        ("anabranch.testing", anabranch.testing),
    ]
    for prefix, space in spaces:
        for name, value in vars(space).items():
            is_own = getattr(value, "__module__", "").startswith("anabranch")
            is_public = not name.startswith("_") and is_own
            if not is_public or not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            yield f"{prefix}.{name}", value
            if inspect.isclass(value):
                for inner, member in vars(value).items():
                    is_callable = inspect.isfunction(member) or isinstance(
                        member, (property, classmethod)
                    )
                    if not inner.startswith("_") and is_callable:
                        yield f"{prefix}.{name}.{inner}", member


def test_nearly_all_public_names_have_an_example() -> None:
    names = dict(_public())
    without = [name for name, value in names.items() if ">>>" not in (inspect.getdoc(value) or "")]
    assert len(names) > 60
    assert len(without) <= 0.05 * len(names), without


def test_every_public_name_is_documented() -> None:
    assert [name for name, value in _public() if not inspect.getdoc(value)] == []
