"""Partitions of a sweep: the task that a worker makes, and the rows that it writes."""

from __future__ import annotations

import importlib
import pickle
import threading
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from . import _native
from ._errors import AnabranchError, VersionError
from ._extras import load
from ._result import Result
from ._run import run
from ._scenario import Scenario
from ._sweep_folder import holds, write_part
from ._table import concat_tables

#: Table that has a row for each run, failed ones included. Its file is written last.
RUNS = "runs"


class Point(NamedTuple):
    """A point of a sweep: its number, its settings, and the cells of its index by column."""

    number: int
    settings: dict[str, Any]
    cells: dict[str, float | str | None]


class Plan(NamedTuple):
    """A partition as a worker needs it. Its size does not depend on that of the sweep."""

    scenario: Scenario
    points: list[Point]
    #: Columns of settings, and whether each holds numbers.
    columns: dict[str, bool]
    seeds: list[int]
    traces: list[str]
    #: Number of the partition.
    number: int
    #: Folder of the results, and the identity that its description has.
    folder: str
    identity: str

    def dumps(self) -> bytes:
        """Return the plan as bytes; algorithms of a notebook are included if cloudpickle exists."""
        try:
            pickler: Any = importlib.import_module("cloudpickle")
        except ModuleNotFoundError:
            pickler = pickle
        encoded: bytes = pickler.dumps(self)
        return encoded


class Stopped(Exception):
    """End of a run in a thread of a sweep that was interrupted."""


class Failure(NamedTuple):
    """A run without a result."""

    point: int
    #: Place of the seed in the list of seeds.
    seed_at: int
    error: str


def make_part(
    version: str, plan: bytes, stop: threading.Event | None = None
) -> dict[str, bytes] | None:
    """Run the points of a partition, and write its files.

    Return the files instead, by table, on a machine that does not see the folder. `version` is that
    of the package that started the sweep: another one raises `VersionError`. The plan is read after
    that, since another version may not understand it.
    """
    own = _native.__version__
    if version != own:
        raise VersionError(
            f"the sweep was started with anabranch {version}, and a worker has {own}: "
            "install the same version on all machines",
            [version, own],
        )
    read: Plan = pickle.loads(plan)
    files = {name: _encode(table) for name, table in rows(read, stop).items()}
    if not holds(read.folder, read.identity):
        return files
    write_part(read.folder, read.number, files)
    return None


def rows(plan: Plan, stop: threading.Event | None = None) -> dict[str, Any]:
    """Return the tables of a partition, as `pyarrow.Table`s, by name."""
    results: list[tuple[int, int, Result]] = []
    failures: list[Failure] = []
    for point in plan.points:
        for made in _of_point(plan, point, stop):
            if isinstance(made, Failure):
                failures.append(made)
            else:
                results.append((point.number, *made))
    names = results[0][2].table_names if results else list(_empty(tuple(plan.traces)))
    tables = {name: _indexed(plan, name, results) for name in names}
    tables[RUNS] = _with_failures(plan, tables[RUNS], results, failures)
    return tables


def _of_point(
    plan: Plan, point: Point, stop: threading.Event | None
) -> list[tuple[int, Result] | Failure]:
    """Return results with the place of their first seed, or failures."""
    try:
        scenario = plan.scenario.with_(point.settings)
    except BaseException as error:
        text = _text(error)
        return [Failure(point.number, at, text) for at in range(len(plan.seeds))]
    try:
        return [(0, _run(scenario, plan.seeds, plan.traces, stop))]
    except BaseException as error:
        _text(error)
    # A failure ends all runs of the call. The seeds are run again one by one, to keep the others.
    made: list[tuple[int, Result] | Failure] = []
    for at, seed in enumerate(plan.seeds):
        try:
            made.append((at, _run(scenario, [seed], plan.traces, stop)))
        except BaseException as error:
            made.append(Failure(point.number, at, _text(error)))
    return made


def _run(
    scenario: Scenario, seeds: list[int], traces: list[str], stop: threading.Event | None
) -> Result:
    def check(_: float) -> None:
        if stop is not None and stop.is_set():
            raise Stopped

    result = run(scenario, seeds, threads=1, trace=traces, progress=check)
    if result.is_partial:
        raise KeyboardInterrupt
    return result


def _text(error: BaseException) -> str:
    """Return the text of an error that belongs to the point; raise any other again.

    A lack of memory or an interrupt would not happen again on another machine.
    """
    is_panic = type(error).__name__ == "PanicException"
    if is_panic or isinstance(error, (AnabranchError, ValueError, TypeError)):
        return f"{type(error).__name__}: {error}"
    raise error


@lru_cache(maxsize=4)
def _empty(traces: tuple[str, ...]) -> dict[str, Any]:
    """Return the schema of each table; it does not depend on the scenario."""
    from .testing import small_scenario

    short = small_scenario().with_({"duration": "100 ms"})
    result = run(short, seeds=1, threads=1, trace=list(traces), progress=False)
    return {name: result.table(name).to_arrow().schema for name in result.table_names}


def schemas(traces: list[str]) -> dict[str, Any]:
    """Return the schema of each table without settings. Raise `UnknownName` for a trace."""
    return dict(_empty(tuple(traces)))


def _indexed(plan: Plan, name: str, results: list[tuple[int, int, Result]]) -> Any:
    """Return a table of all results, with the point's number and settings."""
    arrow = load("pyarrow")
    if results:
        tables = [result.table(name) for _, _, result in results]
        table = concat_tables(tables).to_arrow()
        lengths = [len(part) for part in tables]
    else:
        table, lengths = _empty(tuple(plan.traces))[name].empty_table(), []
    points = [point for point, _, _ in results]
    index = _index(plan, np.repeat(np.array(points, dtype=np.int64), lengths))
    rest = {column: table.column(column) for column in table.column_names if column != "point"}
    return arrow.table({**index, **rest})


def _index(plan: Plan, points: Any) -> dict[str, Any]:
    """Return the columns `point` and settings of rows with these points."""
    arrow = load("pyarrow")
    known, places = np.unique(points, return_inverse=True)
    by_number = {point.number: point.cells for point in plan.points}
    cells = [by_number[int(point)] for point in known]
    index = {"point": arrow.array(points, type=arrow.int64())}
    for column, is_number in plan.columns.items():
        values = [cell.get(column) for cell in cells]
        if is_number:
            array = arrow.array(values, type=arrow.float64())
        else:
            array = arrow.array(values, type=arrow.string()).dictionary_encode()
        index[column] = array.take(arrow.array(places, type=arrow.int64()))
    return index


def _with_failures(
    plan: Plan, table: Any, results: list[tuple[int, int, Result]], failures: list[Failure]
) -> Any:
    """Return the table of runs with a column `error`, in the order of points and seeds."""
    arrow = load("pyarrow")
    table = table.append_column("error", arrow.nulls(len(table), arrow.string()))
    if not failures:
        return table
    seeds = np.array(plan.seeds, dtype=np.uint64).astype(np.int64)
    points = np.array([failure.point for failure in failures], dtype=np.int64)
    own = {
        **_index(plan, points),
        "seed": arrow.array([int(seeds[failure.seed_at]) for failure in failures], arrow.int64()),
        "error": arrow.array([failure.error for failure in failures], arrow.string()),
    }
    columns = [
        own[field.name].cast(field.type)
        if field.name in own
        else arrow.nulls(len(failures), field.type)
        for field in table.schema
    ]
    failed = arrow.table(columns, schema=table.schema)
    keys = [
        (point, first + at) for point, first, result in results for at in range(len(result.runs))
    ]
    keys += [(failure.point, failure.seed_at) for failure in failures]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return arrow.concat_tables([table, failed]).unify_dictionaries().combine_chunks().take(order)


def _encode(table: Any) -> bytes:
    """Return a table as a Parquet file, without metadata that could differ."""
    sink = load("pyarrow").BufferOutputStream()
    load("pyarrow.parquet").write_table(table, sink, compression="zstd")
    encoded: bytes = sink.getvalue().to_pybytes()
    return encoded
