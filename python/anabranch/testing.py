"""Scenarios and files for trials, and the contract that algorithms keep."""

from __future__ import annotations

from . import _native
from ._algorithms import Controller, Scheduler, maker_of, name_of
from ._examples import example
from ._run import run
from ._scenario import Scenario

__all__ = [
    "ContractError",
    "check_controller",
    "check_scheduler",
    "example",
    "small_scenario",
    "two_path_scenario",
]

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


def _same_twice(scenario: Scenario) -> None:
    first, second = (run(scenario, seeds=2, trace=(), progress=False) for _ in range(2))
    hashes = [result.runs["trace_hash"].tolist() for result in (first, second)]
    _demand(hashes[0] == hashes[1], "two runs of the same seed are equal")


def _blackout() -> Scenario:
    """Return a greedy flow over 3 Mbit/s and twice 30 ms, with an outage from 10 to 14 s."""
    link = {"rate_mbps": 3, "delay_ms": 30, "queue_ms": 200}
    outage = {"at": "10 s", "for": "4 s"}
    return Scenario(
        {
            "duration_s": 40,
            "links": {"up": {**link, "outages": [outage]}, "down": {"delay_ms": 30}},
            "routes": {"only": {"forward": ["up"], "reverse": ["down"]}},
            "flows": [{"paths": ["only"], "kind": "bulk"}],
        }
    )


def _recovers(scenario: Scenario) -> None:
    result = run(scenario, seeds=2, trace="series", progress=False)
    series = result.path_series
    for seed in result.runs["seed"]:
        is_seed = series["seed"] == seed
        rate = [
            float(
                series["delivered_bps"][
                    is_seed & (series["time_s"] > a) & (series["time_s"] <= b)
                ].mean()
            )
            for a, b in ((5, 10), (25, 40))
        ]
        text = f"seed {seed}: {rate[0]:.0f} bit/s before, {rate[1]:.0f} bit/s after"
        _demand(rate[1] >= 0.9 * rate[0], f"recovers after a blackout: {text}")


def check_controller(controller: type[Controller] | Controller, *, cases: int = 50) -> None:
    """Check that a controller keeps the contract that all controllers in Rust keep.

    It always sends something: after any packet, report or timeout a packet fits the window, and the
    rates are above zero. The same calls give the same answers, and the same seed the same run. It
    recovers after a blackout of 4 s. `cases`: number of random sequences of 300 steps.

    Raises `ContractError` that names the broken rule, and `AlgorithmError` for an exception.

    >>> import anabranch
    >>> class Stops(anabranch.Controller):
    ...     def on_feedback(self, now_s, feedback):
    ...         return anabranch.Control(pacing_bps=0.0)
    >>> try:
    ...     anabranch.testing.check_controller(Stops)
    ... except anabranch.testing.ContractError as error:
    ...     print(str(error).split(":")[0])
    always sends something
    """
    rule = _native.check_controller_steps(name_of(controller), maker_of(controller), cases)
    if rule is not None:
        raise ContractError(rule)
    _same_twice(two_path_scenario().with_({"flows.0.controller": controller}))
    _recovers(_blackout().with_({"flows.0.controller": controller}))


def check_scheduler(scheduler: type[Scheduler] | Scheduler, *, cases: int = 50) -> None:
    """Check that a scheduler keeps the contract that all schedulers in Rust keep.

    It binds every packet where a path has room, never to a dead path. It prefers active paths to
    suspect ones, and leaves paths in reserve alone while another is active. A single path gets
    everything. The same calls give the same answers, and the same seed the same run.
    `cases`: number of random sets of paths, each with six frames.

    Raises `ContractError` that names the broken rule, and `AlgorithmError` for an exception.

    >>> import anabranch
    >>> class Holds(anabranch.Scheduler):
    ...     def choose(self, packets, paths):
    ...         return [None for _ in packets]
    >>> try:
    ...     anabranch.testing.check_scheduler(Holds)
    ... except anabranch.testing.ContractError as error:
    ...     print(str(error).split(":")[0])
    binds everything where a path has room
    """
    rule = _native.check_scheduler_steps(name_of(scheduler), maker_of(scheduler), cases)
    if rule is not None:
        raise ContractError(rule)
    _same_twice(two_path_scenario().with_({"flows.0.scheduler": scheduler}))
