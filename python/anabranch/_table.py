"""Tables: columns of numpy arrays that other packages read in Arrow's format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._errors import UnknownName
from ._extras import load

_KINDS: dict[str, Any] = {"float64": np.float64, "int64": np.int64, "bool": np.bool_}


class Table:
    """A table with columns of the same length. It does not change.

    `table["goodput_bps"]` is a numpy array: float64 (a missing number is NaN), int64, bool, or
    objects for texts (a missing text is None). The table implements the Arrow PyCapsule interface.
    `pyarrow.table(table)`, `polars.DataFrame(table)` and duckdb therefore read it without a copy.
    The unit of a column is the end of its name.

    Raises `UnknownName` for a column that does not exist.

    >>> import anabranch
    >>> table = anabranch.Table.from_columns({"seed": [1, 2], "delay_ms": [20.0, float("nan")]})
    >>> len(table), table.names
    (2, ['seed', 'delay_ms'])
    >>> table["delay_ms"]
    array([20., nan])
    """

    __slots__ = ("_cache", "_native")

    def __init__(self, native: _native.NativeTable) -> None:
        self._native = native
        self._cache: dict[str, NDArray[Any]] = {}

    @classmethod
    def from_columns(cls, columns: Mapping[str, Sequence[Any] | NDArray[Any]]) -> Table:
        """Return a table of these columns: numbers, truth values or texts.

        >>> import anabranch
        >>> anabranch.Table.from_columns({"link": ["up", None]})["link"].tolist()
        ['up', None]
        """
        return cls(_native.NativeTable.from_columns([_typed(n, v) for n, v in columns.items()]))

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order; the end of a name is its unit.

        >>> import anabranch
        >>> anabranch.schedulers().names
        ['name', 'meaning']
        """
        return self._native.names()

    def __len__(self) -> int:
        return len(self._native)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._cache:
            if name not in self:
                near = _native.nearest_name(str(name), self.names)
                hint = f"; did you mean {near!r}?" if near else ""
                text = f"no column is called {name!r}; known are {', '.join(self.names)}{hint}"
                raise UnknownName(text, self.names, near)
            self._cache[name] = self._array(name)
        return self._cache[name]

    def _array(self, name: str) -> NDArray[Any]:
        kind, data, names = self._native.column(name)
        if names is None:
            return np.frombuffer(data, dtype=_KINDS[kind])
        codes = np.frombuffer(data, dtype=np.int32)
        # The last one is that of the code -1.
        texts = np.array([*names, None], dtype=object)
        values = texts[codes]
        values.flags.writeable = False
        return values

    def categories(self, name: str) -> list[str]:
        """Return the different texts of a column, in the order of their first rows.

        Raises `TypeError` for a column of numbers.

        >>> import anabranch
        >>> anabranch.metrics().categories("unit")[:2]
        ['share', 'bit/s']
        """
        if name not in self:
            self[name]
        names = self._native.column(name)[2]
        if names is None:
            raise TypeError(f"column {name!r} holds numbers")
        used = {text for text in self[name].tolist() if text is not None}
        return [text for text in names if text in used]

    def filter(self, rows: NDArray[Any] | Sequence[Any]) -> Table:
        """Return the rows at which `rows` is true, or those with these numbers (from 0).

        Raises `ValueError` for truth values of another length, or a row that is not there.

        >>> import anabranch
        >>> metrics = anabranch.metrics()
        >>> metrics.filter(metrics["metric"] == "jain")["unit"].tolist()
        ['share']
        """
        chosen = np.asarray(rows)
        if chosen.dtype == np.bool_:
            if len(chosen) != len(self):
                raise ValueError(f"{len(chosen)} truth values for {len(self)} rows")
            chosen = np.flatnonzero(chosen)
        return Table(self._native.take([int(row) for row in chosen]))

    def where(self, **values: Any) -> Table:
        """Return the rows whose columns have these values.

        >>> import anabranch
        >>> anabranch.metrics().where(metric="loss")["column"].tolist()
        ['loss']
        """
        keep = np.ones(len(self), dtype=np.bool_)
        for name, value in values.items():
            keep &= self[name] == value
        return self.filter(keep)

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Return all columns as numpy arrays by name.

        >>> import anabranch
        >>> list(anabranch.schedulers().to_dict())
        ['name', 'meaning']
        """
        return {name: self[name] for name in self.names}

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`; texts are categoricals. Raises `MissingExtra`.

        >>> import anabranch
        >>> anabranch.schedulers().to_pandas().columns.tolist()
        ['name', 'meaning']
        """
        pandas = load("pandas")
        columns: dict[str, Any] = {}
        for name in self.names:
            kind, data, names = self._native.column(name)
            if names is None:
                columns[name] = np.frombuffer(data, dtype=_KINDS[kind]).copy()
            else:
                codes = np.frombuffer(data, dtype=np.int32)
                columns[name] = pandas.Categorical.from_codes(codes, categories=names)
        return pandas.DataFrame(columns)

    def to_polars(self) -> Any:
        """Return a `polars.DataFrame` without a copy. Raises `MissingExtra`.

        >>> import anabranch
        >>> anabranch.schedulers().to_polars().columns
        ['name', 'meaning']
        """
        return load("polars").DataFrame(self)

    def to_arrow(self) -> Any:
        """Return a `pyarrow.Table` without a copy. Raises `MissingExtra`.

        >>> import anabranch
        >>> anabranch.schedulers().to_arrow().column_names
        ['name', 'meaning']
        """
        return load("pyarrow").table(self)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._native.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        return self._native.__arrow_c_schema__()

    def __reduce__(self) -> tuple[Any, ...]:
        return (Table, (self._native,))

    def __repr__(self) -> str:
        return f"<Table of {len(self)} rows: {', '.join(self.names)}>"

    def _repr_html_(self) -> str:
        return html_table(
            self.names,
            [[self[n][row] for n in self.names] for row in self._head()],
            f"{len(self)} rows",
        )

    def _head(self) -> range:
        return range(min(len(self), 10))


def _typed(name: str, values: Sequence[Any] | NDArray[Any]) -> tuple[str, str, Any]:
    array = np.asarray(values)
    if array.dtype.kind == "b":
        return name, "bool", array.tolist()
    if array.dtype.kind in "iu":
        return name, "int64", array.tolist()
    if array.dtype.kind == "f":
        return name, "float64", array.tolist()
    texts = [None if value is None else str(value) for value in values]
    return name, "text", texts


def concat_tables(tables: Sequence[Table]) -> Table:
    """Return the rows of all tables; a column that a table lacks is missing there."""
    return Table(_native.NativeTable.concat([table._native for table in tables]))


def show(value: Any) -> str:
    """Return a cell's text."""
    if value is None:
        return ""
    if isinstance(value, (float, np.floating)):
        return "" if np.isnan(value) else f"{value:.6g}"
    return str(value)


def html_table(names: Sequence[str], rows: Sequence[Sequence[Any]], caption: str = "") -> str:
    """Return an HTML table."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(show(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    text = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{text}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
