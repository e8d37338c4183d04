"""Scenarios for trials, and the contract that algorithms keep."""

from __future__ import annotations

from typing import Any

from ._algorithms import Controller, Scheduler
from ._run import run
from ._scenario import Scenario

_SMALL = """
title = "A camera behind a slow uplink"
duration = "5 s"

[links.up]
rate = "2 Mbit/s"
delay = "20 ms"
queue = "200 ms"

[links.down]
delay = "20 ms"

[routes.only]
forward = ["up"]
reverse = ["down"]

[[flows]]
name = "camera"
paths = ["only"]
source = { kind = "gop", min = "300 kbit/s", max = "4 Mbit/s" }

[expect]
frames-decodable-on-time = { min = "50 %" }
"""

_TWO_PATHS = """
title = "A camera with two networks"
duration = "8 s"

[links.wifi]
rate = "3 Mbit/s"
delay = "15 ms"
queue = "200 ms"
outages = [{ at = "4 s", for = "1 s" }]

[links.lte]
rate = "2 Mbit/s"
delay = "40 ms"
queue = "300 ms"
loss = "1 %"

[links.back]
delay = "20 ms"

[routes.wifi]
forward = ["wifi"]
reverse = ["back"]

[routes.lte]
forward = ["lte"]
reverse = ["back"]

[[flows]]
name = "camera"
paths = ["wifi", "lte"]
source = { kind = "gop", min = "300 kbit/s", max = "4 Mbit/s" }
"""


def small_scenario() -> Scenario:
    """Return a scenario of 5 s: one flow of video over a link of 2 Mbit/s.

    >>> import anabranch
    >>> anabranch.testing.small_scenario().duration_s
    5.0
    """
    return Scenario.from_toml(_SMALL, name="small")


def two_path_scenario() -> Scenario:
    """Return a scenario of 8 s: video over two uneven paths, one of which fails for a second.

    >>> import anabranch
    >>> anabranch.testing.two_path_scenario().link_names
    ['back', 'lte', 'wifi']
    """
    return Scenario.from_toml(_TWO_PATHS, name="two-paths")


class ContractError(AssertionError):
    """A rule of the contract that an algorithm breaks. The message names the rule.

    >>> import anabranch
    >>> issubclass(anabranch.testing.ContractError, AssertionError)
    True
    """


def _demand(is_kept: bool, rule: str) -> None:
    if not is_kept:
        raise ContractError(rule)


def _same_twice(scenario: Scenario, what: str) -> Any:
    first, second = (run(scenario, seeds=2, trace=(), progress=False) for _ in range(2))
    hashes = [result.runs["trace_hash"].tolist() for result in (first, second)]
    _demand(hashes[0] == hashes[1], f"{what}: two runs of the same seed differ")
    return first
