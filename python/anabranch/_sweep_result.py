"""Results of sweeps, read from their folders."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import _native, _sweep_folder
from ._errors import UnknownName
from ._extras import load
from ._result import TRACED, Result, _of_arrow
from ._table import Table


class SweepResult:
    """Rows of a sweep's finished partitions, in a folder. Nothing is read before it is needed.

    Tables are those of `Result`, with the same columns. Each begins with `point` (from 0), the
    settings as numbers with the unit in the name, and `seed`. `runs` has a row for every run, and
    a last column `error`: the text of a failed run, else missing. Failed runs have no other rows.

    A folder `TABLE` holds a Parquet file for each partition, which other programs can read:
    `duckdb.sql("from 'results/flows/*.parquet'")`.

    >>> import anabranch, tempfile
    >>> small = anabranch.testing.small_scenario()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = anabranch.Sweep(small, {"links.up.rate_mbps": [1, 2]}, seeds=2).run(folder)
    ...     made.points["links.up.rate_bps"].tolist(), len(made.to_pandas("flows"))
    ([1000000.0, 2000000.0], 4)
    """

    __slots__ = ("_about", "_parts", "folder")

    #: Folder of the results.
    folder: Path

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._about = _sweep_folder.read_description(self.folder)
        self._parts = _sweep_folder.finished(self.folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> SweepResult:
        """Open the folder of a sweep, which may still be running or have been interrupted.

        Later partitions are seen when it is opened again. Raises `FileNotFoundError` without a
        sweep, and `ValueError` for a folder of another format.

        >>> import anabranch
        >>> anabranch.SweepResult.load("missing")
        Traceback (most recent call last):
        ...
        FileNotFoundError: missing holds no sweep: there is no sweep.json
        """
        return cls(folder)

    @property
    def name(self) -> str:
        """Name of the scenario.

        >>> import anabranch, tempfile
        >>> small = anabranch.testing.small_scenario()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     anabranch.Sweep(small, {"links.up.loss": [0.1]}, seeds=1).run(folder).name
        'small'
        """
        return str(self._about["name"])

    @property
    def version(self) -> str:
        """Version of the package that made all runs.

        >>> import anabranch, tempfile
        >>> small = anabranch.testing.small_scenario()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = anabranch.Sweep(small, {"links.up.loss": [0.1]}, seeds=1).run(folder)
        >>> made.version == anabranch.__version__
        True
        """
        return str(self._about["version"])

    @property
    def settings(self) -> list[str]:
        """Names of the columns of settings; the end of a name is its unit.

        >>> import anabranch, tempfile
        >>> small = anabranch.testing.small_scenario()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     anabranch.Sweep(small, {"links.up.delay": ["5 ms"]}, seeds=1).run(folder).settings
        ['links.up.delay_ms']
        """
        return list(self._about["columns"])

    @property
    def seeds(self) -> list[int]:
        """Seeds of every point.

        >>> import anabranch, tempfile
        >>> small = anabranch.testing.small_scenario()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     anabranch.Sweep(small, {"links.up.loss": [0.1]}, seeds=3).run(folder).seeds
        [1, 2, 3]
        """
        return list(self._about["seeds"])

    @property
    def asked_count(self) -> int:
        """Number of runs of the whole sweep, points times seeds.

        >>> import anabranch, tempfile
        >>> small = anabranch.testing.small_scenario()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     anabranch.Sweep(small, {"links.up.loss": [0, 0.1]}, seeds=3).run(folder).asked_count
        6
        """
        return int(self._about["point_count"]) * len(self.seeds)

    @property
    def finished_count(self) -> int:
        """Number of runs in finished partitions, failed ones included.

        >>> import anabranch, tempfile
        >>> small = anabranch.testing.small_scenario()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = anabranch.Sweep(small, {"links.up.loss": [0, 0.1]}, seeds=3).run(folder)
        >>> made.finished_count
        6
        """
        size, points = int(self._about["part_points"]), int(self._about["point_count"])
        count = sum(min(size, points - number * size) for number in self._parts)
        return count * len(self.seeds)

    @property
    def is_partial(self) -> bool:
        """Whether partitions are missing: `Sweep.run` with the same folder makes them.

        >>> import anabranch, tempfile
        >>> small = anabranch.testing.small_scenario()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     anabranch.Sweep(small, {"links.up.loss": [0.1]}, seeds=1).run(folder).is_partial
        False
        """
        return self.finished_count < self.asked_count

    @property
    def table_names(self) -> list[str]:
        """Names of the tables.

        >>> import anabranch, tempfile
        >>> small = anabranch.testing.small_scenario()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = anabranch.Sweep(small, {"links.up.loss": [0.1]}, seeds=1).run(folder)
        ...     made.table_names[:3]
        ['runs', 'flows', 'paths']
        """
        traces = self._about["trace"]
        return [
            name for name in _native.table_names() if name not in TRACED or TRACED[name] in traces
        ]

    def dataset(self, name: str) -> Any:
        """Return a table of all finished partitions as a `pyarrow.dataset.Dataset`.

        It reads columns and rows when they are asked for, so it may be larger than the memory.
        Raises `UnknownName` for a table that the sweep does not have, `FileNotFoundError` before a
        partition is finished, and `MissingExtra`.

        >>> import anabranch, tempfile
        >>> small = anabranch.testing.small_scenario()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = anabranch.Sweep(small, {"links.up.loss": [0, 0.1]}, seeds=3).run(folder)
        ...     made.dataset("flows").count_rows()
        6
        """
        if name not in self.table_names:
            near = _native.nearest_name(name, self.table_names)
            hint = f"; did you mean {near!r}?" if near else ""
            if name in TRACED:
                hint = f': Sweep(..., trace=["{TRACED[name]}"])'
            known = ", ".join(self.table_names)
            text = f"the sweep has no table {name!r}; known are {known}{hint}"
            raise UnknownName(text, self.table_names, near)
        parts = [_sweep_folder.part_file(self.folder, name, number) for number in self._parts]
        if not parts:
            raise FileNotFoundError(f"{self.folder} holds no finished partition yet")
        return load("pyarrow.dataset").dataset([str(part) for part in parts], format="parquet")

    def to_pandas(self, name: str = "runs", columns: Sequence[str] | None = None) -> Any:
        """Return a table, or some of its columns, as a `pandas.DataFrame`.

        Texts are categoricals. Raises as `dataset` does.

        >>> import anabranch, tempfile
        >>> small = anabranch.testing.small_scenario()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = anabranch.Sweep(small, {"links.up.loss": [0, 0.1]}, seeds=3).run(folder)
        ...     frame = made.to_pandas("flows", ["links.up.loss", "goodput_bps"])
        >>> frame.groupby("links.up.loss").size().to_dict()
        {0.0: 3, 0.1: 3}
        """
        load("pandas")
        wanted = None if columns is None else list(columns)
        return self.dataset(name).to_table(columns=wanted).to_pandas()

    @property
    def points(self) -> Table:
        """Index of the finished points: `point`, and its settings as numbers with units or texts.

        >>> import anabranch, tempfile
        >>> small = anabranch.testing.small_scenario()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = anabranch.Sweep(small, {"links.up.rate": ["1 Mbit/s"]}, seeds=3).run(folder)
        ...     made.points["links.up.rate_bps"].tolist()
        [1000000.0]
        """
        columns = ["point", *self.settings]
        rows = self.dataset("runs").to_table(columns=columns)
        return _of_arrow(rows.take(list(range(0, len(rows), len(self.seeds)))))

    @property
    def failed(self) -> Table:
        """Failed runs: `point`, settings, `seed` and `error`.

        >>> import anabranch, tempfile
        >>> small = anabranch.testing.small_scenario()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = anabranch.Sweep(small, {"links.up.loss": [0, 2]}, seeds=1).run(folder)
        ...     made.failed["point"].tolist(), "ScenarioError" in made.failed["error"][0]
        ([1], True)
        """
        field = load("pyarrow.compute").field("error")
        columns = ["point", *self.settings, "seed", "error"]
        return _of_arrow(self.dataset("runs").to_table(columns=columns, filter=field.is_valid()))

    def result(self) -> Result:
        """Read all tables into memory as a `Result`, without the failed runs.

        >>> import anabranch, tempfile
        >>> small = anabranch.testing.small_scenario()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = anabranch.Sweep(small, {"links.up.loss": [0, 0.1]}, seeds=3).run(folder)
        ...     made.result()
        <Result of 'small': 6 runs>
        """
        field = load("pyarrow.compute").field("error")
        tables = {name: self.dataset(name).to_table() for name in self.table_names}
        tables["runs"] = tables["runs"].filter(field.is_null()).drop_columns(["error"])
        return Result(
            {name: _of_arrow(table) for name, table in tables.items()},
            name=self.name,
            settings=self.settings,
            asked_count=self.asked_count,
        )

    def __repr__(self) -> str:
        part = " (unfinished)" if self.is_partial else ""
        count = f"{self.finished_count} of {self.asked_count} runs"
        return f"<SweepResult of {self.name!r} in {str(self.folder)!r}: {count}{part}>"
