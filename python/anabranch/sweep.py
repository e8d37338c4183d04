"""Sweeps over many settings, on the cores of one machine or on a cluster."""

from __future__ import annotations

import itertools
import os
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from . import _native, _sweep_folder, _sweep_grid, _sweep_part
from ._extras import load
from ._progress import Bar, Progress
from ._run import ScenarioLike, Seeds, as_scenario, as_seeds, as_threads, as_traces
from ._scenario import Scenario
from ._sweep_grid import Grid
from ._sweep_part import Plan, Point, make_part
from ._sweep_result import SweepResult

__all__ = ["Sweep", "SweepResult"]

#: Tasks in flight for each worker: one that runs and one that follows it.
_TASKS_PER_WORKER = 2
#: Least number of tasks in flight on an executor whose number of workers may change.
_LEAST_TASKS = 16
#: Time in seconds in which a network's file system shows files that another machine has written.
_VISIBLE_WITHIN_S = 60.0
#: Interval in seconds in which a cluster's number of workers is asked for.
_COUNT_INTERVAL_S = 5.0


class Sweep:
    """A scenario at all combinations of settings, or at a list of points, with all seeds.

    `settings`: lists of values by key, as in `Scenario.with_`; the last key changes first. `zip`:
    keys of `settings` whose values go together, the first with the first; or several such lists.
    `points`: instead of `settings`, a dictionary of settings for each point, or a data frame with a
    column for each key; a missing cell is a key that the point does not set.
    `seeds`: 20 means 1 to 20; or a range or list. `trace`: as in `run`, but none by default.

    Raises `ScenarioError` for a key whose values are all impossible, `ValueError` for no values or
    seeds, a point or seed given twice, keys of `zip` that differ in length, or a scenario with a
    `[sweep]`, and `UnknownName` for an unknown trace. A single impossible value becomes rows with
    its error.

    >>> import anabranch
    >>> small = anabranch.testing.small_scenario()
    >>> settings = {"links.up.rate": ["1 Mbit/s", "2 Mbit/s"], "flows.0.controller": ["gcc"]}
    >>> anabranch.Sweep(small, settings, seeds=20)
    <Sweep of 'small': 2 x 1 points, 20 seeds>
    >>> settings["links.up.delay"] = ["20 ms", "10 ms"]
    >>> both = anabranch.Sweep(small, settings, zip=["links.up.rate", "links.up.delay"])
    >>> both.settings_of(1)["links.up.delay"], both.point_count
    ('10 ms', 2)
    >>> anabranch.Sweep(small, points=[{"links.up.loss": 0.1}, {"links.up.rate_mbps": 1}], seeds=1)
    <Sweep of 'small': 2 points, 1 seeds>
    """

    __slots__ = ("_grid", "scenario", "seeds", "trace")

    def __init__(
        self,
        scenario: ScenarioLike,
        settings: Mapping[str, Iterable[Any]] | None = None,
        *,
        zip: Sequence[str] | Sequence[Sequence[str]] = (),
        points: Any = None,
        seeds: Seeds = 10,
        trace: str | Sequence[str] | bool = (),
    ) -> None:
        #: The scenario.
        self.scenario = as_scenario(scenario)
        if self.scenario.points[0]:
            raise ValueError("sweep: the scenario has a [sweep]; remove it: with_({'sweep': {}})")
        #: The seeds of every point.
        self.seeds = as_seeds(seeds)
        #: Names of the traces.
        self.trace = as_traces(trace)
        if points is None:
            groups = _sweep_grid.crossed(settings or {}, zip)
        elif settings is None and not zip:
            groups = _sweep_grid.listed(points)
        else:
            raise ValueError("points: each has all its settings, so `settings` and `zip` are none")
        self._grid = Grid(self.scenario, groups)

    @property
    def point_count(self) -> int:
        """Number of points: of `points`, else the product of the numbers of values.

        >>> import anabranch
        >>> small = anabranch.testing.small_scenario()
        >>> anabranch.Sweep(small, {"links.up.loss": [0, 0.01, 0.1]}).point_count
        3
        """
        return len(self._grid)

    def settings_of(self, point: int) -> dict[str, Any]:
        """Return the settings of a point, from 0. Raises `IndexError`.

        `sweep.scenario.with_(sweep.settings_of(7))` is the scenario of point 7.

        >>> import anabranch
        >>> small = anabranch.testing.small_scenario()
        >>> anabranch.Sweep(small, {"links.up.loss": [0, 0.01, 0.1]}).settings_of(2)
        {'links.up.loss': 0.1}
        """
        if not 0 <= point < self.point_count:
            raise IndexError(f"there is no point {point} of {self.point_count}")
        return self._grid.settings(point)

    def run(
        self,
        folder: str | os.PathLike[str],
        *,
        executor: Any = None,
        threads: int = 0,
        part_points: int | None = None,
        retry_failed: bool = False,
        progress: Progress = "auto",
    ) -> SweepResult:
        """Run all points that `folder` does not hold yet, and return the results in it.

        `executor`: None for threads of this process (`threads`: 0 for one per core), any
        `concurrent.futures.Executor`, or a `dask.distributed.Client`. `part_points`: points of a
        partition, by default for 200 to 1,000 simulated seconds; a started sweep keeps its own.
        `retry_failed`: run partitions with failed runs again. `progress`: as in `run`.

        Workers write a partition to a temporary name and rename it. A worker that does not see the
        folder returns it, and this process writes it. A sweep that was interrupted, or whose
        workers died, goes on with its first missing partition. Rows do not depend on executors.

        An impossible setting, a panic or an exception of an algorithm in Python is a row of `runs`
        with an `error`. An interrupt (Ctrl-C) returns the finished partitions with a warning;
        without any it is raised (`KeyboardInterrupt`).

        Raises `ValueError` for a `part_points` below 1, `FileExistsError` for a folder that holds
        another sweep or other files, `VersionError` for a sweep or worker of another version,
        `MissingExtra` without pyarrow, and the exception of an executor whose workers died.
        Finished partitions are kept.

        >>> import anabranch, tempfile
        >>> small = anabranch.testing.small_scenario()
        >>> sweep = anabranch.Sweep(small, {"links.up.rate_mbps": [1, 2]}, seeds=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sweep.run(folder, threads=2)  # doctest: +ELLIPSIS
        <SweepResult of 'small' in '...': 4 of 4 runs>
        """
        if part_points is not None and part_points < 1:
            raise ValueError(f"part_points: 1 or more, not {part_points}")
        as_threads(threads)
        if executor is not None:
            _as_executor(executor)
        load("pyarrow.parquet")
        tables = list(_sweep_part.schemas(self.trace))
        target = Path(folder).absolute()
        size = part_points or _sweep_grid.part_points(
            self.scenario.duration_s, self.point_count, len(self.seeds)
        )
        wanted = _sweep_folder.describe(self.scenario, self._grid, self.seeds, self.trace, size)
        found = _sweep_folder.open_folder(target, wanted)
        size = int(found["part_points"])
        missing = self._missing(target, size, tables, retry_failed)

        # Workers may have another working directory.
        scenario = self.scenario._at_absolute_path() if found["files"] else self.scenario

        def plan(number: int) -> bytes:
            return self._plan(scenario, target, str(found["identity"]), size, number).dumps()

        run_s = self.scenario.duration_s * len(self.seeds)
        work = _Work(plan, {number: run_s * len(self._points(size, number)) for number in missing})
        is_interrupted = work.make(target, executor, threads, progress)
        made = SweepResult(target) if is_interrupted else _when_visible(target)
        if not is_interrupted:
            _sweep_folder.remove_temporaries(target)
        elif made.finished_count == 0:
            raise KeyboardInterrupt
        else:
            count = f"{made.finished_count} of {made.asked_count} runs"
            warnings.warn(f"interrupted: {count} are finished", RuntimeWarning, stacklevel=2)
        return made

    def _points(self, size: int, number: int) -> range:
        return _sweep_grid.batches(self.point_count, size, number)

    def _plan(
        self, scenario: Scenario, folder: Path, identity: str, size: int, number: int
    ) -> Plan:
        grid = self._grid
        return Plan(
            scenario=scenario,
            points=[
                Point(point, grid.settings(point), grid.cells(point))
                for point in self._points(size, number)
            ],
            columns=grid.columns,
            seeds=self.seeds,
            traces=self.trace,
            number=number,
            folder=str(folder),
            identity=identity,
        )

    def _missing(self, folder: Path, size: int, tables: list[str], retry_failed: bool) -> list[int]:
        """Return the partitions that are to be made."""

        def is_kept(number: int) -> bool:
            run_count = len(self._points(size, number)) * len(self.seeds)
            is_whole = _sweep_folder.is_whole(folder, tables, number, run_count)
            return is_whole and not (retry_failed and _sweep_folder.has_failures(folder, number))

        kept = {number for number in _sweep_folder.finished(folder) if is_kept(number)}
        count = _sweep_grid.parts(self.point_count, size)
        return [number for number in range(count) if number not in kept]

    def __repr__(self) -> str:
        about = f"{self._grid} points, {len(self.seeds)} seeds"
        return f"<Sweep of {self.scenario.name!r}: {about}>"


class _Work(NamedTuple):
    """Partitions to be made."""

    #: Returns the plan of a partition.
    plan: Callable[[int], bytes]
    #: Simulated seconds of each partition.
    seconds: dict[int, float]

    def make(self, folder: Path, executor: Any, threads: int, progress: Progress) -> bool:
        """Make the partitions on an executor. Return whether that was interrupted."""
        if not self.seconds:
            return False
        stop = threading.Event()
        bar = Bar(progress, sum(self.seconds.values()))
        own = ThreadPoolExecutor(threads or os.cpu_count() or 1) if executor is None else None
        tasks, count_workers = _as_executor(own or executor)
        # Only threads of this process can be stopped within a run.
        rest = (stop,) if isinstance(tasks, ThreadPoolExecutor) else ()

        def submit(number: int) -> Future[Any]:
            return tasks.submit(make_part, _native.__version__, self.plan(number), *rest)

        try:
            with closing(_completed(submit, iter(self.seconds), count_workers)) as completed:
                for number, files in completed:
                    if files is not None:
                        _sweep_folder.write_part(folder, number, files)
                    if bar.call is not None:
                        bar.call(self.seconds[number])
            return False
        except KeyboardInterrupt:
            return True
        finally:
            stop.set()
            if own is not None:
                own.shutdown(wait=True, cancel_futures=True)
            bar.close()


def _when_visible(folder: Path) -> SweepResult:
    """Return the whole result, once all files that workers have written can be seen."""
    asked_at = time.monotonic()
    while (made := SweepResult(folder)).is_partial:
        if time.monotonic() - asked_at > _VISIBLE_WITHIN_S:
            raise FileNotFoundError(
                f"{folder}: {made.asked_count - made.finished_count} finished runs cannot be seen"
            )
        time.sleep(0.1)
    return made


def _as_executor(executor: Any) -> tuple[Executor, Callable[[], int]]:
    """Return an executor, and a function that returns its number of workers."""
    if hasattr(executor, "get_executor"):
        client = executor
        return client.get_executor(pure=False), lambda: sum(client.nthreads().values())
    if not hasattr(executor, "submit"):
        raise TypeError(
            "executor: expected a concurrent.futures.Executor or a dask.distributed.Client, "
            f"not {type(executor).__name__}"
        )
    workers = getattr(executor, "_max_workers", None)
    return executor, lambda: workers if isinstance(workers, int) else 4 * _LEAST_TASKS


def _completed(
    submit: Callable[[int], Future[Any]],
    numbers: Iterator[int],
    count_workers: Callable[[], int],
) -> Generator[tuple[int, dict[str, bytes] | None], None, None]:
    """Yield partitions as they are finished, with few tasks in flight.

    The memory of this process thus does not grow with the number of points. Raise the first
    exception of a task, and cancel the others.
    """
    in_flight: dict[Future[Any], int] = {}
    window, counted_at = 0, -_COUNT_INTERVAL_S
    try:
        while True:
            if time.monotonic() - counted_at >= _COUNT_INTERVAL_S:
                window = max(_LEAST_TASKS, _TASKS_PER_WORKER * count_workers())
                counted_at = time.monotonic()
            for number in itertools.islice(numbers, max(0, window - len(in_flight))):
                in_flight[submit(number)] = number
            if not in_flight:
                return
            done, _ = wait(in_flight, timeout=_COUNT_INTERVAL_S, return_when=FIRST_COMPLETED)
            for future in done:
                yield in_flight.pop(future), future.result()
    finally:
        for future in in_flight:
            future.cancel()
