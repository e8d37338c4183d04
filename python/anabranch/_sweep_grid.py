"""The grid of a sweep: its points, and their settings as columns of numbers with units."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _toml
from ._errors import ScenarioError
from ._scenario import Scenario, _named

#: Scenario whose title takes any text, to read a quantity apart from its key.
_TITLED = """
duration = "1 s"
links.up = { rate = "1 Mbit/s" }
routes.only = { forward = ["up"], reverse = ["up"] }
flows = [{ paths = ["only"] }]
"""


class Cell(NamedTuple):
    """Value of a setting in the index: its column, and a number, a text, or None."""

    column: str
    value: float | str | None


class Unset:
    """Place of a key in a point that does not set it."""


UNSET = Unset()
#: Cell of such a key; it has no column.
_NO_CELL = Cell("", None)


class Axis(NamedTuple):
    """A key with its values, as they were given and as cells of the index."""

    key: str
    values: list[Any]
    cells: list[Cell]

    @property
    def overrides(self) -> list[str | None]:
        """The values as texts `KEY=VALUE`, which identify them; None where a point sets none."""
        return [None if value is UNSET else _override(self.key, value) for value in self.values]


class Grid:
    """All combinations of groups of settings. The last group changes first, as in `[sweep]`.

    A group is a key, or several keys whose values go together.
    """

    def __init__(self, scenario: Scenario, groups: list[dict[str, list[Any]]]) -> None:
        for group in groups:
            _refuse_twice(group)
        first = {key: values[0] for group in groups for key, values in group.items()}
        # Overrides take precedence over a sweep, so the scenario is read without them.
        plain = Scenario._of(scenario._file, scenario.to_toml(), (), scenario.algorithms)
        self.groups = [[_axis(plain, key, group, first) for key in group] for group in groups]
        self.axes = [axis for group in self.groups for axis in group]
        self.columns: dict[str, bool] = {}
        for axis in self.axes:
            own: dict[str, bool] = {}
            for cell in axis.cells:
                if cell is not _NO_CELL:
                    is_number = isinstance(cell.value, float)
                    own[cell.column] = own.get(cell.column, False) or is_number
            for column in own:
                if column in self.columns:
                    raise ValueError(f"settings: two keys set {column!r}")
            self.columns.update(own)

    def __len__(self) -> int:
        return math.prod(_length(group) for group in self.groups)

    def settings(self, point: int) -> dict[str, Any]:
        """Return the values of a point, from 0, by key."""
        places = ((axis, axis.values[at]) for axis, at in self._places(point))
        return {axis.key: value for axis, value in places if value is not UNSET}

    def cells(self, point: int) -> dict[str, float | str | None]:
        """Return the values of a point by column; a column of another unit is missing."""
        cells = (axis.cells[at] for axis, at in self._places(point))
        return {cell.column: cell.value for cell in cells if cell is not _NO_CELL}

    def _places(self, point: int) -> list[tuple[Axis, int]]:
        places: list[tuple[Axis, int]] = []
        for group in reversed(self.groups):
            point, at = divmod(point, _length(group))
            places.extend((axis, at) for axis in reversed(group))
        return places[::-1]

    def __str__(self) -> str:
        return " x ".join(str(_length(group)) for group in self.groups) or "1"


def _length(group: list[Axis]) -> int:
    return len(group[0].values)


def crossed(
    settings: Mapping[str, Iterable[Any]], zipped: Sequence[str] | Sequence[Sequence[str]]
) -> list[dict[str, list[Any]]]:
    """Return the groups of settings: the keys of `zipped` go together, others are alone.

    Raises `ValueError` for keys that `settings` lacks, or whose values differ in number.
    """
    values = {key: _values(key, each) for key, each in settings.items()}
    lists: list[list[str]] = []
    if zipped:
        is_one = all(isinstance(each, str) for each in zipped)
        lists = [list(map(str, zipped))] if is_one else [list(each) for each in zipped]
    joined: dict[str, list[str]] = {}
    for keys in lists:
        for key in keys:
            if key not in values:
                raise ValueError(f"zip: {key!r} is no key of the settings {', '.join(values)}")
            if key in joined:
                raise ValueError(f"zip: {key!r} is there twice")
            if len(values[key]) != len(values[keys[0]]):
                counts = f"{keys[0]!r} has {len(values[keys[0]])} values"
                raise ValueError(f"zip: {counts}, and {key!r} has {len(values[key])}")
            joined[key] = keys
    groups: list[dict[str, list[Any]]] = []
    for key in values:
        keys = joined.get(key, [key])
        # A group has the place of its first key among the settings.
        if not any(key in group for group in groups):
            groups.append({each: values[each] for each in values if each in keys})
    return groups


def listed(points: Any) -> list[dict[str, list[Any]]]:
    """Return the group of points: dictionaries, or the rows of a data frame or a `Table`.

    A key that a point lacks is not set there, nor is a missing cell of a data frame.
    Raises `ValueError` without points or keys, and `TypeError` for something else.
    """
    rows = _rows(points)
    keys = list(dict.fromkeys(key for row in rows for key in row))
    if not rows or not keys:
        raise ValueError("points: at least one point with a setting is needed")
    return [{key: [row.get(key, UNSET) for row in rows] for key in keys}]


def _rows(points: Any) -> list[dict[str, Any]]:
    if hasattr(points, "columns") or hasattr(points, "names"):
        names = list(points.columns if hasattr(points, "columns") else points.names)
        columns = {str(name): list(points[name]) for name in names}
        rows = (dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values()))
        return [
            {key: value for key, value in row.items() if not _is_missing(value)} for row in rows
        ]
    if isinstance(points, (str, Mapping)) or not isinstance(points, Iterable):
        raise TypeError(f"points: expected dictionaries or a data frame, not {points!r}")
    given = list(points)
    for row in given:
        if not isinstance(row, Mapping):
            raise TypeError(f"points: expected a dictionary for each point, not {row!r}")
    return [{str(key): value for key, value in row.items()} for row in given]


def _is_missing(value: Any) -> bool:
    is_nan = isinstance(value, (float, np.floating)) and bool(np.isnan(value))
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def _refuse_twice(group: dict[str, list[Any]]) -> None:
    texts = [
        ", ".join(_override(key, value) for key, value in pairs if value is not UNSET)
        for pairs in (zip(group, values) for values in zip(*group.values(), strict=True))
    ]
    twice = [text for text, count in Counter(texts).items() if count > 1]
    if twice:
        raise ValueError(f"settings: {twice[0] or 'a point without settings'} is given twice")


def _values(key: str, values: Iterable[Any]) -> list[Any]:
    if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
        raise ValueError(f"settings: {key!r} needs a list of values, not {values!r}")
    chosen = list(values)
    if not chosen:
        raise ValueError(f"settings: {key!r} needs at least one value")
    return chosen


def _override(key: str, value: Any) -> str:
    return _toml.override(key, _named(value, {}))


def _axis(scenario: Scenario, key: str, group: dict[str, list[Any]], first: dict[str, Any]) -> Axis:
    """Return an axis. Raise the first `ScenarioError` if no value of the key is possible."""
    known: dict[str, tuple[Cell, ScenarioError | None]] = {}
    cells: list[Cell] = []
    errors: list[ScenarioError | None] = []
    for value in group[key]:
        if value is UNSET:
            cells.append(_NO_CELL)
            errors.append(None)
            continue
        text = _override(key, value)
        if text not in known:
            known[text] = _cell(scenario, key, value)
        cells.append(known[text][0])
        errors.append(known[text][1])
    if known and all(error is not None for _, error in known.values()):
        _check_together(scenario, key, group, first, errors)
    return Axis(key, group[key], _of_one_kind(cells, errors))


def _cell(scenario: Scenario, key: str, value: Any) -> tuple[Cell, ScenarioError | None]:
    try:
        ((column, content),) = scenario.with_({"sweep": {key: [value]}}).points[0].items()
        return Cell(column, content), None
    except ScenarioError as error:
        return _apart(key, value), error


def _check_together(
    scenario: Scenario,
    key: str,
    group: dict[str, list[Any]],
    first: dict[str, Any],
    errors: list[ScenarioError | None],
) -> None:
    """Raise the first error, unless a value is possible with those of its group and others."""
    for at, value in enumerate(group[key]):
        if value is UNSET:
            continue
        settings = {**first, **{other: values[at] for other, values in group.items()}}
        try:
            scenario.with_({k: each for k, each in settings.items() if each is not UNSET})
            return
        except ScenarioError:
            continue
    for error in errors:
        if error is not None:
            raise error


def _apart(key: str, value: Any) -> Cell:
    """Return the cell of a value that is not possible by itself: a quantity, or its text."""
    stem, plain = _toml.with_unit(key, _named(value, {}))
    text = plain if isinstance(plain, str) else _toml.inline(plain)
    try:
        titled = Scenario.from_toml(_TITLED).with_({"sweep": {"title": [text]}})
        ((column, content),) = titled.points[0].items()
    except ScenarioError:
        return Cell(stem, text)
    return Cell(stem + column.removeprefix("title"), content)


def _of_one_kind(cells: list[Cell], errors: list[ScenarioError | None]) -> list[Cell]:
    """Return cells with one type for each column.

    Beside numbers, an impossible text is missing: its error has it.
    """
    numbers = [cell.column for cell in cells if isinstance(cell.value, float)]
    first = numbers[0] if numbers else ""
    kept = [
        Cell(first, None) if numbers and error is not None and isinstance(cell.value, str) else cell
        for cell, error in zip(cells, errors, strict=True)
    ]
    texts = {cell.column for cell in kept if isinstance(cell.value, str)}
    return [
        Cell(cell.column, f"{cell.value:g}")
        if cell.column in texts and isinstance(cell.value, float)
        else cell
        for cell in kept
    ]


def parts(point_count: int, part_points: int) -> int:
    """Return the number of partitions of `part_points` points each; the last may have fewer."""
    return -(-point_count // part_points)


def part_points(duration_s: float, point_count: int, seed_count: int) -> int:
    """Return the points of a partition: of 64 equal ones, but for 200 to 1,000 simulated seconds.

    A thousand seconds take about a second, so a worker that dies loses little. A partition's files
    take 25 to 30 ms of CPU time of its worker, as 20 to 30 simulated seconds do, and its messages
    about 8 ms of the client and the scheduler, which also need a core.
    """
    point_s = max(duration_s * seed_count, 1e-9)
    least, most = math.ceil(200 / point_s), math.ceil(1000 / point_s)
    return min(most, max(least, -(-point_count // 64)))


def batches(point_count: int, size: int, number: int) -> range:
    """Return the points of a partition."""
    return range(number * size, min((number + 1) * size, point_count))
