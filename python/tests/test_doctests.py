"""Examples of the documentation."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

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


def test_examples_of_native_classes_give_their_output() -> None:
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    names = ("Control", "ControllerConfig", "Feedback", "Packet", "Packets", "Path")
    for name in names:
        text = getattr(anabranch, name).__doc__
        runner.run(parser.get_doctest(text, {}, name, None, None))
    assert runner.tries >= 2 * len(names) and runner.failures == 0
