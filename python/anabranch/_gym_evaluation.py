"""Comparison of policies with the package's own algorithms, on the same episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._errors import UnknownName
from ._gym_core import RATE_CONTROL, SCHEDULING, Core
from ._gym_engine import Source, Step
from ._table import Table

#: A function of observations (n, width) that returns actions (n, …), or the name of a controller
#: (rate control) or a scheduler (scheduling).
Policy: TypeAlias = "str | Callable[[NDArray[np.float32]], Any]"

_TASKS = {"anabranch/RateControl-v0": RATE_CONTROL, "anabranch/Scheduling-v0": SCHEDULING}


def evaluate(
    environment: str,
    policies: Mapping[str, Policy],
    *,
    scenario: Source = "held-out",
    episodes: int = 50,
    seed: int = 1_000_000,
    **keys: Any,
) -> Table:
    """Return the results of policies on the same episodes, a row for each policy and episode.

    `environment`: the name of one. `policies`: functions of observations, or names of controllers
    for rate control and of schedulers for scheduling, which decide instead of an action. `seed` is
    that of the first episode, the others have the following ones. `keys`: other parameters of the
    environment, such as `action`, `reward` and `threads`.

    Columns: `policy`, `family`, `seed` (of the episode), `reward` (mean of a step), `goodput_bps`,
    `frames_on_time` (share), `frame_delay_ms` (mean of the complete frames), `packet_delay_ms`
    (mean one-way delay) and `packet_loss` (share).

    Raises `UnknownName` for an unknown environment, and what environments raise.

    >>> import anabranch.gym
    >>> def steady(observations):
    ...     return np.zeros((len(observations), 1))
    >>> table = anabranch.gym.evaluate(
    ...     "anabranch/RateControl-v0", {"steady": steady, "gcc": "gcc"}, episodes=2)
    >>> table["policy"].tolist()
    ['steady', 'steady', 'gcc', 'gcc']
    """
    if environment not in _TASKS:
        known = list(_TASKS)
        raise UnknownName(
            f"no environment is called {environment!r}; known are {', '.join(known)}", known
        )
    rows: dict[str, list[Any]] = {}
    for name, policy in policies.items():
        baseline = policy if isinstance(policy, str) else None
        core = Core(
            _TASKS[environment], episodes, scenario=scenario, baseline=baseline, **keys
        )
        decide = policy if callable(policy) else None
        for row in _played(core, decide, seed):
            for column, value in {"policy": name, **row}.items():
                rows.setdefault(column, []).append(value)
    return Table.from_columns(rows)


def _played(
    core: Core, decide: Callable[[NDArray[np.float32]], Any] | None, seed: int
) -> list[dict[str, Any]]:
    """Return the results of an episode in each slot."""
    from gymnasium.utils import seeding

    count = core.engine.count
    core.begin(range(count), [seeding.np_random(seed + slot)[0] for slot in range(count)])
    sums: dict[str, NDArray[np.float64]] = {}
    is_over = np.zeros(count, dtype=np.bool_)
    while not is_over.any():
        action = None if decide is None else decide(core.observer.present())
        made = core.step(action)
        is_over = made.is_over
        for name, values in _numbers(made.step, made.rewards).items():
            sums[name] = sums.get(name, np.zeros(count)) + values
    if not is_over.all():
        raise ValueError("evaluate needs episodes of equal duration")
    return [
        {"family": str(core.engine.family[slot]), "seed": seed + slot, **row}
        for slot, row in enumerate(_rows(sums, count))
    ]


def _numbers(step: Step, rewards: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return the numbers of a step that are added up."""
    network = {name: values.sum(axis=1) for name, values in step.network.items()}
    return {
        "steps": np.ones(len(rewards)),
        "reward": rewards,
        "length_s": step.length_s,
        **step.frames,
        **{name: network[name] for name in ("delivered_packets", "dropped_packets")},
        "packet_delay_sum_s": network["packet_delay_sum_s"],
    }


def _rows(sums: Mapping[str, NDArray[np.float64]], count: int) -> list[dict[str, float]]:
    """Return the results of each episode."""
    frames = sums["on_time_frames"] + sums["missed_frames"]
    packets = sums["delivered_packets"] + sums["dropped_packets"]
    table = {
        "reward": sums["reward"] / sums["steps"],
        "goodput_bps": 8.0 * sums["on_time_bytes"] / sums["length_s"],
        "frames_on_time": sums["on_time_frames"] / np.maximum(frames, 1.0),
        "frame_delay_ms": 1e3
        * sums["frame_delay_sum_s"]
        / np.maximum(sums["complete_frames"], 1.0),
        "packet_delay_ms": 1e3
        * sums["packet_delay_sum_s"]
        / np.maximum(sums["delivered_packets"], 1.0),
        "packet_loss": sums["dropped_packets"] / np.maximum(packets, 1.0),
    }
    return [{name: float(values[slot]) for name, values in table.items()} for slot in range(count)]
