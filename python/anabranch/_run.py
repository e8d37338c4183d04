"""Runs of scenarios."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from . import _native
from ._progress import Bar, Progress
from ._result import Result
from ._scenario import Scenario
from ._table import Table

#: A scenario, the path of its file, or its keys.
ScenarioLike: TypeAlias = "Scenario | str | os.PathLike[str] | Mapping[str, Any]"
#: A number of seeds from 1 on, or the seeds.
Seeds: TypeAlias = "int | Iterable[int]"

_MAX_SEED = 2**64 - 1


def as_scenario(scenario: ScenarioLike) -> Scenario:
    """Return a scenario of a path or of keys."""
    if isinstance(scenario, Scenario):
        return scenario
    if isinstance(scenario, Mapping):
        return Scenario(scenario)
    return Scenario.load(scenario)


def as_seeds(seeds: Seeds) -> list[int]:
    """Return the list of seeds: 10 means 1 to 10. Raise ValueError for none, or one twice."""
    if isinstance(seeds, bool) or isinstance(seeds, (float, str)):
        raise TypeError(f"seeds: expected a number of seeds, a range or a list, not {seeds!r}")
    if isinstance(seeds, (int, np.integer)):
        if seeds < 1:
            raise ValueError(f"seeds: at least one is needed, not {seeds}")
        return list(range(1, int(seeds) + 1))
    chosen = []
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise TypeError(f"seeds: {seed!r} is no whole number")
        if not 0 <= seed <= _MAX_SEED:
            raise ValueError(f"seeds: {seed} is not in the range from 0 to 2**64 - 1")
        chosen.append(int(seed))
    if not chosen:
        raise ValueError("seeds: at least one is needed")
    if len(set(chosen)) < len(chosen):
        raise ValueError("seeds: a seed is there twice")
    return chosen


def as_traces(trace: str | Sequence[str] | bool) -> list[str]:
    """Return the names of traces: all for True, none for False."""
    if isinstance(trace, bool):
        return _native.trace_names() if trace else []
    return [trace] if isinstance(trace, str) else list(trace)


def as_threads(threads: int) -> int:
    """Return the number of threads; raise ValueError for a negative one."""
    if threads < 0:
        raise ValueError(f"threads: 0 (one per core) or more, not {threads}")
    return threads


def run(
    scenario: ScenarioLike,
    seeds: Seeds = 10,
    *,
    threads: int = 0,
    trace: str | Sequence[str] | bool = ("frames",),
    progress: Progress = "auto",
) -> Result:
    """Run a scenario, at every point of its `[sweep]`, with every seed, on all cores.

    `scenario`: a `Scenario`, the path of a file, or a dictionary. `seeds`: 10 means 1 to 10; or a
    range or list. `threads`: 0 for one per core. `trace`: of "frames", "events", "packets" and
    "series"; True for all. Traces are kept in memory: a packet takes about 100 bytes.
    `progress`: "auto", a truth value, or a function that gets simulated seconds.

    The same scenario, seed and version give the trace hash of `anabranch-lab run`, on any machine.

    An interrupt (Ctrl-C) ends the runs within about a simulated second of each. Finished runs are
    returned with a warning, and `Result.is_partial` is true; without any the interrupt is raised.

    Raises `ScenarioError`, `RunError`, `AlgorithmError` for an exception of an algorithm in Python,
    `UnknownName` for an unknown trace, and `ValueError` for no seeds.

    >>> import anabranch
    >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=range(1, 4))
    >>> result.runs["seed"].tolist()
    [1, 2, 3]
    """
    chosen = as_scenario(scenario)
    all_seeds = as_seeds(seeds)
    total_s = chosen.duration_s * chosen.point_count * len(all_seeds)
    bar = Bar(progress, total_s)
    try:
        made = _native.run(chosen._made, all_seeds, as_threads(threads), as_traces(trace), bar.call)
    finally:
        bar.close()
    if made.interrupt is not None:
        is_ended = isinstance(made.interrupt, KeyboardInterrupt)
        if made.finished == 0 or not is_ended:
            raise made.interrupt
        warnings.warn(
            f"interrupted: {made.finished} of {made.asked} runs are finished",
            RuntimeWarning,
            stacklevel=2,
        )
    names = list(dict.fromkeys(name for point in chosen.points for name in point))
    return Result(
        {name: Table(table) for name, table in made.tables.items()},
        name=chosen.name,
        settings=names,
        asked_count=made.asked,
        finished_count=made.finished,
    )
