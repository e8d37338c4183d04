"""Results of runs: tables of measurements and traces."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _native
from ._errors import UnknownName, VersionError
from ._extras import load
from ._table import Table, concat_tables, html_table

if TYPE_CHECKING:
    from ._plot import ResultPlots

#: Trace that fills each traced table.
TRACED = {
    "frames": "frames",
    "events": "events",
    "packets": "packets",
    "path_series": "series",
    "flow_series": "series",
    "link_series": "series",
}
#: Metadata key of saved tables.
_KEY = b"anabranch"
#: Table of failed runs, which only results of sweeps by the program have.
_FAILED = "failed"


class Result:
    """Measurements and traces of runs, in tables. `anabranch.columns()` describes every column.

    Every table begins with the columns `point` (number of the sweep's point, from 0), the point's
    settings as numbers with their unit in the name, and `seed`.

    >>> import anabranch
    >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=2)
    >>> result.flows["seed"].tolist(), result.is_as_expected
    ([1, 2], True)
    """

    __slots__ = ("_tables", "asked_count", "finished_count", "name", "settings")

    #: Name of the scenario.
    name: str
    #: Names of the columns of swept settings.
    settings: list[str]
    #: Number of runs asked for, points times seeds.
    asked_count: int
    #: Number of runs in the tables.
    finished_count: int

    def __init__(
        self,
        tables: Mapping[str, Table],
        *,
        name: str = "",
        settings: Sequence[str] = (),
        asked_count: int | None = None,
        finished_count: int | None = None,
    ) -> None:
        self._tables = dict(tables)
        self.name, self.settings = name, list(settings)
        made = len(self._tables["runs"])
        self.asked_count = made if asked_count is None else asked_count
        self.finished_count = made if finished_count is None else finished_count

    @property
    def is_partial(self) -> bool:
        """Whether the runs were interrupted, and some are missing.

        >>> import anabranch
        >>> anabranch.run(anabranch.testing.small_scenario(), seeds=1).is_partial
        False
        """
        return self.finished_count < self.asked_count

    @property
    def is_as_expected(self) -> bool:
        """Whether every expectation of the scenario was met in every run.

        >>> import anabranch
        >>> strict = anabranch.testing.small_scenario().with_({"expect.loss.max": 0.0})
        >>> strict = strict.with_({"links.up.loss": 0.1})
        >>> anabranch.run(strict, seeds=1).is_as_expected
        False
        """
        return bool(np.all(self.expectations["is_met"]))

    @property
    def versions(self) -> list[str]:
        """Versions of the package that made the runs; more than one only if `concat` allowed it.

        >>> import anabranch
        >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=1)
        >>> result.versions == [anabranch.__version__]
        True
        """
        return self.runs.categories("version")

    @property
    def table_names(self) -> list[str]:
        """Names of the tables of this result.

        >>> import anabranch
        >>> anabranch.run(anabranch.testing.small_scenario(), seeds=1).table_names[:3]
        ['runs', 'flows', 'paths']
        """
        return list(self._tables)

    def table(self, name: str) -> Table:
        """Return a table by its name.

        Raises `UnknownName`; for a trace that was not asked for, its message names the argument.

        >>> import anabranch
        >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=1, trace=())
        >>> result.table("frames")
        Traceback (most recent call last):
        ...
        anabranch._errors.UnknownName: frames were not traced: run(..., trace=["frames"])
        """
        if name in self._tables:
            return self._tables[name]
        if name in TRACED:
            trace = f'run(..., trace=["{TRACED[name]}"])'
            raise UnknownName(f"{name} were not traced: {trace}", self.table_names)
        known = _native.table_names()
        near = _native.nearest_name(name, known)
        hint = f"; did you mean {near!r}?" if near else ""
        text = f"no table is called {name!r}; known are {', '.join(known)}{hint}"
        raise UnknownName(text, known, near)

    @property
    def runs(self) -> Table:
        """Runs: trace hash, version, and the metrics of all flows together.

        >>> import anabranch
        >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=1)
        >>> len(result.runs["trace_hash"][0])
        16
        """
        return self.table("runs")

    @property
    def flows(self) -> Table:
        """Flows: a row for each flow of each run, with all metrics of flows.

        >>> import anabranch
        >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=1)
        >>> bool(result.flows["goodput_bps"][0] > 100_000)
        True
        """
        return self.table("flows")

    @property
    def paths(self) -> Table:
        """Paths: a row for each path of each flow of each run.

        >>> import anabranch
        >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=1)
        >>> result.paths["route"].tolist()
        ['only']
        """
        return self.table("paths")

    @property
    def links(self) -> Table:
        """Links: a row for each link of each run, with all metrics of links.

        >>> import anabranch
        >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=1)
        >>> result.links["link"].tolist()
        ['down', 'up']
        """
        return self.table("links")

    @property
    def phases(self) -> Table:
        """Phases: parts of an adaptive flow between changes of its available rate.

        >>> import anabranch
        >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=1)
        >>> "convergence_time_ms" in result.phases
        True
        """
        return self.table("phases")

    @property
    def reasons(self) -> Table:
        """Reasons: packets of each path by the reason for which they were sent.

        >>> import anabranch
        >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=1)
        >>> "new" in result.reasons["reason"]
        True
        """
        return self.table("reasons")

    @property
    def expectations(self) -> Table:
        """Expectations: the value of each in each run, and whether it is met.

        >>> import anabranch
        >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=1)
        >>> result.expectations["metric"].tolist()
        ['frames-decodable-on-time']
        """
        return self.table("expectations")

    @property
    def frames(self) -> Table:
        """Frames of video with their outcomes and delays in ms (`trace=["frames"]`).

        >>> import anabranch
        >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=1)
        >>> len(result.frames) > 100
        True
        """
        return self.table("frames")

    @property
    def events(self) -> Table:
        """Events: states of paths and controllers, abandoned frames (`trace=["events"]`).

        >>> import anabranch
        >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=1, trace=["events"])
        >>> result.events["event"][0]
        'path-state'
        """
        return self.table("events")

    @property
    def packets(self) -> Table:
        """Packets: each one sent, delivered and dropped (`trace=["packets"]`).

        >>> import anabranch
        >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=1, trace=["packets"])
        >>> sorted(set(result.packets["event"]))
        ['delivered', 'dropped', 'sent']
        """
        return self.table("packets")

    @property
    def path_series(self) -> Table:
        """Rates, delays and states of paths every 100 ms (`trace=["series"]`).

        >>> import anabranch
        >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=1, trace=["series"])
        >>> len(result.path_series)
        51
        """
        return self.table("path_series")

    @property
    def flow_series(self) -> Table:
        """Rates of flows every 100 ms (`trace=["series"]`).

        >>> import anabranch
        >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=1, trace=["series"])
        >>> "target_bps" in result.flow_series
        True
        """
        return self.table("flow_series")

    @property
    def link_series(self) -> Table:
        """Rates and queues of links every 100 ms (`trace=["series"]`).

        >>> import anabranch
        >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=1, trace=["series"])
        >>> sorted(set(result.link_series["link"]))
        ['down', 'up']
        """
        return self.table("link_series")

    @property
    def failed(self) -> Table:
        """Failed runs in a file of `anabranch-lab`: `point`, settings, `seed` and `error`.

        They have no rows in other tables. A failed run of `anabranch.run` raises an exception.

        >>> import anabranch
        >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=1)
        >>> len(result.failed), result.failed.names
        (0, ['point', 'seed', 'error'])
        """
        if _FAILED in self._tables:
            return self._tables[_FAILED]
        kinds = {"point": "int64", **dict.fromkeys(self.settings, "text"), "seed": "int64"}
        kinds["error"] = "text"
        columns: list[tuple[str, str, Any]] = [(name, kind, []) for name, kind in kinds.items()]
        return Table(_native.NativeTable.from_columns(columns))

    @property
    def plot(self) -> ResultPlots:
        """Plots on matplotlib axes: `timeline`, `cdf`, `series` and `heatmap`.

        >>> import anabranch
        >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=1)
        >>> result.plot.timeline().get_ylabel()
        'frame delay (ms)'
        """
        from ._plot import ResultPlots

        return ResultPlots(self)

    def to_pandas(self, table: str = "flows") -> Any:
        """Return a table as a `pandas.DataFrame`. Raises `MissingExtra`, `UnknownName`.

        >>> import anabranch
        >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=2)
        >>> len(result.to_pandas("runs"))
        2
        """
        return self.table(table).to_pandas()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write all tables: `x.parquet` is a folder with a Parquet file for each. Return its path.

        The files are written to a temporary folder first. Raises `FileExistsError` if there is
        something at `path` already, and `MissingExtra` without pyarrow.

        >>> import anabranch, tempfile
        >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = result.save(folder + "/x.parquet")
        ...     len(anabranch.Result.load(path).flows)
        1
        """
        target = Path(path)
        if target.exists():
            raise FileExistsError(f"{target} exists; a result overwrites nothing")
        parquet = load("pyarrow.parquet")
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        temporary.mkdir(parents=True)
        about = {
            "name": self.name,
            "settings": self.settings,
            "asked_count": self.asked_count,
            "finished_count": self.finished_count,
            "versions": self.versions,
        }
        for name, table in self._tables.items():
            arrow = table.to_arrow()
            metadata = {_KEY: json.dumps({**about, "table": name}).encode()}
            parquet.write_table(
                arrow.replace_schema_metadata(metadata), temporary / f"{name}.parquet"
            )
        temporary.rename(target)
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """Read a folder that `save` has written, or a file of `anabranch-lab run --output`.

        Such a file may also be one of `merge`, or a single shard. `failed` has its failed runs.
        Raises `FileNotFoundError` if there is none, `ValueError` if it holds something else or is
        damaged, and `MissingExtra` for a folder without pyarrow.

        >>> import anabranch
        >>> anabranch.Result.load("missing.parquet")
        Traceback (most recent call last):
        ...
        FileNotFoundError: missing.parquet is no folder of a saved result
        """
        if Path(path).is_file():
            name, settings, count, natives = _native.read_rows(os.fspath(path))
            rows = {table: Table(native) for table, native in natives.items()}
            return cls(
                rows, name=name, settings=settings, asked_count=count, finished_count=count
            )
        folder = Path(path)
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder} is no folder of a saved result")
        parquet = load("pyarrow.parquet")
        about: dict[str, Any] = {}
        tables: dict[str, Table] = {}
        for name in [*_native.table_names(), _FAILED]:
            file = folder / f"{name}.parquet"
            if file.exists():
                arrow = parquet.read_table(file)
                metadata = (arrow.schema.metadata or {}).get(_KEY)
                if metadata is None:
                    raise ValueError(f"{file} was not written by anabranch")
                about = json.loads(metadata)
                tables[name] = _of_arrow(arrow)
        if "runs" not in tables:
            raise ValueError(f"{folder} holds no result of anabranch")
        return cls(
            tables,
            name=about["name"],
            settings=about["settings"],
            asked_count=about["asked_count"],
            finished_count=about["finished_count"],
        )

    def __repr__(self) -> str:
        part = " (interrupted)" if self.is_partial else ""
        return f"<Result of {self.name!r}: {self.finished_count} runs{part}>"

    def _repr_html_(self) -> str:
        names = [*self.settings, "flow", "controller", "scheduler"]
        metrics = ["goodput_bps", "frames_decodable_on_time", "frame_delay_p95_ms", "loss"]
        rows: dict[tuple[Any, ...], list[int]] = {}
        keys = zip(*(self.flows[name] for name in names), strict=True)
        for row, key in enumerate(keys):
            rows.setdefault(key, []).append(row)
        means = [
            [*key, *(_mean(self.flows[metric][at]) for metric in metrics)]
            for key, at in rows.items()
        ]
        part = ", interrupted" if self.is_partial else ""
        expected = "as expected" if self.is_as_expected else "NOT as expected"
        caption = f"{self.name}: {self.finished_count} runs{part}, {expected}; means over seeds"
        return html_table([*names, *metrics], means, caption)


def _mean(values: Any) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _of_arrow(arrow: Any) -> Table:
    """Return a table of a `pyarrow.Table` that one of this package was written from."""
    columns = []
    for field in arrow.schema:
        text = str(field.type)
        kind = {"double": "float64", "int64": "int64", "bool": "bool"}.get(text, "text")
        values = arrow.column(field.name).to_pylist()
        if kind == "float64":
            values = [float("nan") if value is None else value for value in values]
        columns.append((field.name, kind, values))
    return Table(_native.NativeTable.from_columns(columns))


def concat(
    results: Iterable[Result], *, mixed_versions: bool = False, duplicates: bool = False
) -> Result:
    """Return one result with the runs of all.

    Points keep their numbers. Only tables that all results have are kept. Raises `VersionError` for
    runs of different versions of the package, unless `mixed_versions`, and `ValueError` for the
    same point, settings and seed twice, unless `duplicates`.

    >>> import anabranch
    >>> scenario = anabranch.testing.small_scenario()
    >>> parts = [anabranch.run(scenario, seeds=[1]), anabranch.run(scenario, seeds=[2])]
    >>> anabranch.concat(parts).flows["seed"].tolist()
    [1, 2]
    """
    parts = list(results)
    if not parts:
        raise ValueError("concat needs a result")
    versions = sorted({version for part in parts for version in part.versions})
    if len(versions) > 1 and not mixed_versions:
        raise VersionError(f"results of versions {' and '.join(versions)} do not mix", versions)
    settings = list(dict.fromkeys(name for part in parts for name in part.settings))
    names = [name for name in parts[0].table_names if all(name in p.table_names for p in parts)]
    tables = {name: concat_tables([part.table(name) for part in parts]) for name in names}
    failed = [part.failed for part in parts if len(part.failed)]
    if failed:
        tables[_FAILED] = concat_tables(failed)
    if not duplicates:
        runs = tables["runs"]
        keys = list(zip(*(_keys(runs[n]) for n in ["point", *settings, "seed"]), strict=True))
        twice = [key for key, count in Counter(keys).items() if count > 1]
        if twice:
            text = ", ".join(map(str, twice[0]))
            raise ValueError(f"the run of point, settings and seed ({text}) is there twice")
    return Result(
        tables,
        name=parts[0].name,
        settings=settings,
        asked_count=sum(part.asked_count for part in parts),
        finished_count=sum(part.finished_count for part in parts),
    )


def _keys(values: Any) -> list[Any]:
    """Return values that compare equal if they are: a missing number as None."""
    return [None if value != value else value for value in values.tolist()]
