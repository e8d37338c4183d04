"""Tables of measurements over time, as files or columns in memory: rates and delays."""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from typing import Any, Literal, TypeAlias

import numpy as np

from ._errors import TraceError
from ._trace_files import (
    MAX_BPS,
    MAX_DELAY_MS,
    MAX_MS,
    MAX_ROWS,
    RATE_UNITS,
    TIME_UNITS,
    Floats,
    Pieces,
    lines,
    number_of,
    shown,
)

#: A row that comes later than this many usual intervals follows a gap (chosen).
GAP_INTERVALS = 2.5
#: Cells of a row without a measurement: pandas' words for missing values, and a dash.
MISSING = frozenset(
    ("", "-", "#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "NaT", "None", "n/a", "nan", "null")
)
#: Least numbers that are Unix times in ms, us and ns: each is the year 1973 in its unit, and the
#: year 5138 in the next longer one.
_UNIX_TIMES = (("ns", 1e17), ("us", 1e14), ("ms", 1e11))
_LAST_UNIX_TIME = 1e20
#: Treatment of gaps, see `anabranch.Trace.from_throughput`.
GAPS = ("outage", "hold", "error")
Gaps: TypeAlias = Literal["outage", "hold", "error"]
#: Name of a column, or its number from 0.
Column: TypeAlias = str | int
#: Line or row number, and one cell for each column asked for.
Row = tuple[int, list[str]]


def rows_of(data: Any, file: str | None, columns: list[Column], delimiter: str) -> Iterator[Row]:
    """Yield the rows of a file, or of columns in memory."""
    if len(delimiter) != 1:
        raise ValueError(f"delimiter: {delimiter!r} is no character; ' ' is any white space")
    for column in columns:
        if not isinstance(column, str) and (isinstance(column, bool) or column < 0):
            raise ValueError(f"{column!r} is neither the name of a column nor its number from 0")
    if file is None:
        return data_rows(data, columns)
    return csv_rows(file, columns, delimiter)


def csv_rows(path: str, columns: list[Column], delimiter: str) -> Iterator[Row]:
    """Yield the line number and the chosen cells of each row of a file.

    Lines that begin with "#" are comments; before the first row one may be the heading. A file
    whose columns are chosen by number may have none.
    """
    rows = _cells(path, delimiter)
    has_names = any(isinstance(column, str) for column in columns)
    places: list[int] | None = None if has_names else [int(column) for column in columns]
    heading: list[str] = []
    is_first = True
    for number, cells in rows:
        if cells and cells[0].startswith("#"):
            heading = heading or [cells[0].lstrip("# "), *cells[1:]]
            heading = heading if heading[0] else heading[1:]
            continue
        if places is None:
            # A comment above the rows is the heading if it has the names.
            if all(column in heading for column in columns if isinstance(column, str)):
                places = [_place(column, heading, path, 1, delimiter) for column in columns]
            else:
                places = [_place(column, cells, path, number, delimiter) for column in columns]
                is_first = False
                continue
        if len(cells) <= max(places):
            reason = f"the row has only {len(cells)} cells{_other_delimiter(cells, delimiter)}"
            raise TraceError(reason, path, number)
        chosen = [cells[place] for place in places]
        if is_first and _is_heading(chosen):
            is_first = False
            continue
        is_first = False
        yield number, chosen
    if places is None:
        _place(next(c for c in columns if isinstance(c, str)), [], path, 1, delimiter)


def _cells(path: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and all cells of each row that has any."""
    at = [0]

    def texts() -> Iterator[str]:
        for number, line in lines(path):
            at[0] = number
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise TraceError("the line is no UTF-8 text", path, number) from None

    if delimiter.isspace() and delimiter != "\t":
        yield from ((at[0], cells) for text in texts() if (cells := text.split()))
        return
    reader = csv.reader(texts(), delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        for cells in reader:
            if cells:
                yield at[0], [cell.strip() for cell in cells]
    except csv.Error as error:
        raise TraceError(str(error), path, at[0]) from None


def _other_delimiter(cells: list[str], delimiter: str) -> str:
    """Return the advice to name the delimiter, if a row is one cell that has another one."""
    if len(cells) != 1:
        return ""
    if delimiter.isspace() and "," in cells[0]:
        return "; give delimiter=','"
    found = re.search(r"[;\t ,|]", cells[0])
    return f"; give delimiter={found[0]!r}" if found else ""


def _place(column: Column, heading: list[str], path: str, line: int, delimiter: str) -> int:
    if not isinstance(column, str):
        return int(column)
    if column in heading:
        return heading.index(column)
    reason = f"no column is called {column!r}; there are {', '.join(heading)[:400]}"
    if heading and all(_is_number(cell) for cell in heading):
        reason += ": without a heading, give columns by number, such as time=0"
    else:
        reason += _other_delimiter(heading, delimiter)
    raise TraceError(reason, path, line)


def _is_heading(cells: list[str]) -> bool:
    """Return whether no cell of a first row could be a time or a number."""
    return not any(cell in MISSING or any(char.isdigit() for char in cell) for cell in cells)


def data_rows(data: Any, columns: list[Column]) -> Iterator[Row]:
    """Yield the number and the chosen cells of each row of columns in memory."""
    found = [_column(data, column) for column in columns]
    if len({len(column) for column in found}) > 1:
        raise TraceError("the columns differ in length")
    for number, cells in enumerate(zip(*found, strict=True), 1):
        if number > MAX_ROWS:
            raise TraceError(f"there are more than {MAX_ROWS} rows", None, number)
        yield number, [_text(cell) for cell in cells]


def _column(data: Any, column: Column) -> list[Any]:
    """Return a column by its name, or by its number if no column has this name."""
    if isinstance(data, np.ndarray):
        names: Sequence[Any] = range(data.shape[1] if data.ndim == 2 else 0)
    else:
        names = list(getattr(data, "columns", data))
    if column in names:
        return list(data.T[int(column)] if isinstance(data, np.ndarray) else data[column])
    if isinstance(column, int) and column < len(names):
        return list(data[names[column]])
    known = ", ".join(map(str, names))
    raise TraceError(f"no column is called {column!r}; there are {known}")


def _text(cell: Any) -> str:
    """Return the text of a value; empty for the missing values of Python, numpy and pandas."""
    is_missing = cell is None or type(cell).__name__ in ("NAType", "NaTType")
    if is_missing or (isinstance(cell, (float, np.floating)) and math.isnan(cell)):
        return ""
    if isinstance(cell, (np.datetime64, np.timedelta64)) and np.isnat(cell):
        return ""
    if hasattr(cell, "total_seconds") or isinstance(cell, np.timedelta64):
        raise TraceError("a time is a duration: give numbers, column.dt.total_seconds() in pandas")
    return str(cell).strip()


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


#: Function of cell, file and line that returns a time in ms.
Clock: TypeAlias = Callable[[str, str | None, int], float]


def clock(unit: str | None, pattern: str | None) -> Clock:
    """Return a clock of numbers in `unit`, ISO 8601, or texts like `pattern` of `strptime`.

    Without a unit the first number decides: seconds, or the unit in which it is a Unix time.
    """
    if unit is not None and unit not in TIME_UNITS:
        raise ValueError(f"time_unit: {unit!r} is none of {', '.join(TIME_UNITS)}")
    chosen = [unit]

    def time_ms(cell: str, file: str | None, line: int) -> float:
        if cell in MISSING:
            reason = "the row has no time: remove such rows, df.dropna(subset=[…]) in pandas"
            raise TraceError(reason, file, line)
        try:
            if pattern is not None:
                moment = datetime.strptime(cell, pattern)
            elif _is_number(cell):
                value = number_of(cell, "the time", file, line)
                if value < 0:
                    raise TraceError(f"the time {shown(cell)} is negative", file, line)
                likely = _unit_of(value)
                own = chosen[0] = chosen[0] or likely
                if own == "s" and likely != "s":
                    text = f"the time {shown(cell)} in s is beyond the year 5000; give time_unit="
                    raise TraceError(f"{text}{likely!r}", file, line)
                return value * TIME_UNITS[own]
            else:
                moment = datetime.fromisoformat(cell.replace("Z", "+00:00"))
        except TraceError:
            raise
        except ValueError:
            hint = "" if pattern else "; time_format= takes a pattern of strptime"
            raise TraceError(f"{shown(cell)} is no time{hint}", file, line) from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        return moment.timestamp() * 1000.0

    return time_ms


def _unit_of(value: float) -> str:
    """Return the unit of a Unix time, or "s" for any other number."""
    is_unix = value < _LAST_UNIX_TIME
    return next((unit for unit, least in _UNIX_TIMES if is_unix and value >= least), "s")


def samples(
    rows: Iterator[Row],
    file: str | None,
    time_ms: Clock | None,
    value: Callable[[str, int], float],
    interval_ms: float | None,
    repeated: Literal["error", "mean"],
) -> tuple[Floats, Floats]:
    """Return times in ms from the first row, and values (NaN: none), of rows in order of time.

    A row has a time and a value; without `time_ms`, only a value each `interval_ms`.
    """
    times, values = array("d"), array("d")
    begin, same = 0.0, 1
    for line, cells in rows:
        measured = math.nan if cells[-1] in MISSING else value(cells[-1], line)
        if time_ms is None:
            times.append(len(times) * float(interval_ms or 0.0))
            values.append(measured)
            continue
        time = time_ms(cells[0], file, line)
        begin = begin if times else time
        last = times[-1] if times else -1.0
        if time - begin < last:
            raise TraceError(f"the time {shown(cells[0])} is before the row above", file, line)
        if time - begin > MAX_MS:
            reason = f"the time {shown(cells[0])} is more than 49.7 days later: is time_unit right?"
            raise TraceError(reason, file, line)
        if time - begin > last:
            times.append(time - begin)
            values.append(measured)
            same = 1
        elif repeated == "mean":
            if math.isnan(values[-1]):
                values[-1] = measured
            elif not math.isnan(measured):
                same += 1
                values[-1] += (measured - values[-1]) / same
        else:
            reason = f"the time {shown(cells[0])} is there twice; repeated='mean' takes the mean"
            raise TraceError(reason, file, line)
    if not times:
        raise TraceError("there are no rows", file)
    return np.frombuffer(times), np.frombuffer(values)


def rate_of(unit: str, file: str | None, cell: str, line: int) -> float:
    """Return a rate in bit/s from a cell, or raise `TraceError`."""
    value = number_of(cell, "the rate", file, line) * RATE_UNITS[unit]
    if value < 0:
        raise TraceError(f"a rate of {cell} {unit} is negative", file, line)
    if value > MAX_BPS:
        raise TraceError(f"a rate of {cell} {unit} is above 10 Tbit/s", file, line)
    return value


def delay_of(unit: str, file: str | None, lost: tuple[float, ...], cell: str, line: int) -> float:
    """Return a delay in ms from a cell, NaN for a loss, or raise `TraceError`."""
    written = number_of(cell, "the delay", file, line)
    if written in lost:
        return math.nan
    value = written * TIME_UNITS[unit]
    if not 0 <= value <= MAX_DELAY_MS:
        reason = "is negative" if value < 0 else "is above an hour"
        raise TraceError(f"a delay of {cell} {unit} {reason}", file, line)
    return value


def held(values: Floats) -> Floats:
    """Return values in which each missing one is the one before it, or else the first."""
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        return values
    at = known[np.maximum(np.searchsorted(known, np.arange(len(values)), side="right") - 1, 0)]
    return values[at]


def refuse_gaps(gaps: tuple[Floats, Floats], file: str | None) -> None:
    """Raise `TraceError` for the longest gap, if there is one."""
    starts, lengths = gaps
    if len(starts):
        at = int(np.argmax(lengths))
        text = f"a gap of {lengths[at] / 1000:g} s at {starts[at] / 1000:g} s"
        remedy = "gaps='outage' takes it for an outage, gaps='hold' keeps the value before it"
        raise TraceError(f"{text}: {remedy}", file)


def throughput(
    times: Floats,
    rates: Floats,
    file: str | None,
    interval_ms: float | None,
    stamp: str,
    gaps: Gaps,
) -> Pieces:
    """Return the bytes of rates in bit/s, each of the interval that starts or ends at its time."""
    spacing = np.diff(times)
    if interval_ms is None and not len(spacing):
        raise TraceError("a single row has no length; give interval_ms", file)
    usual = float(np.median(spacing)) if interval_ms is None else interval_ms
    is_gap = spacing > GAP_INTERVALS * usual
    limit = usual if interval_ms is not None else np.inf
    width = np.where(is_gap, usual, np.minimum(spacing, limit))
    widths = np.append(width, usual) if stamp == "start" else np.append(usual, width)
    start = times if stamp == "start" else times - widths
    begin = start[0]
    is_lost = np.isnan(rates)
    found = (
        np.concatenate((times[:-1][is_gap], start[is_lost])) - begin,
        np.concatenate((spacing[is_gap] - usual, widths[is_lost])),
    )
    if gaps == "error":
        refuse_gaps(found, file)
    if gaps == "hold":
        rates, found = held(rates), (np.empty(0), np.empty(0))
        widths = np.append(np.diff(start), widths[-1])
    sizes = np.nan_to_num(rates) * widths / 8000.0
    return Pieces(start - begin, start - begin + widths, sizes, found)
