"""The grid of a sweep: its points, and their settings as columns of numbers with units."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

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


class Axis(NamedTuple):
    """A key with its values, as they were given and as cells of the index."""

    key: str
    values: list[Any]
    cells: list[Cell]

    @property
    def overrides(self) -> list[str]:
        """The values as texts `KEY=VALUE`, which identify them."""
        return [_override(self.key, value) for value in self.values]


class Grid:
    """All combinations of the axes' values. The last axis changes first, as in `[sweep]`."""

    def __init__(self, scenario: Scenario, settings: Mapping[str, Iterable[Any]]) -> None:
        chosen = {key: _values(key, values) for key, values in settings.items()}
        # Overrides take precedence over a sweep, so the scenario is read without them.
        plain = Scenario._of(scenario._file, scenario.to_toml(), (), scenario.algorithms)
        self.axes = [_axis(plain, key, chosen) for key in chosen]
        self.columns: dict[str, bool] = {}
        for axis in self.axes:
            own: dict[str, bool] = {}
            for cell in axis.cells:
                is_number = isinstance(cell.value, float)
                own[cell.column] = own.get(cell.column, False) or is_number
            for column in own:
                if column in self.columns:
                    raise ValueError(f"settings: two keys set {column!r}")
            self.columns.update(own)

    def __len__(self) -> int:
        return math.prod(len(axis.values) for axis in self.axes)

    def settings(self, point: int) -> dict[str, Any]:
        """Return the values of a point, from 0, by key."""
        return {axis.key: axis.values[at] for axis, at in self._places(point)}

    def cells(self, point: int) -> dict[str, float | str | None]:
        """Return the values of a point by column; a column of another unit is missing."""
        cells = (axis.cells[at] for axis, at in self._places(point))
        return {cell.column: cell.value for cell in cells}

    def _places(self, point: int) -> list[tuple[Axis, int]]:
        places = []
        for axis in reversed(self.axes):
            point, at = divmod(point, len(axis.values))
            places.append((axis, at))
        return places[::-1]


def _values(key: str, values: Iterable[Any]) -> list[Any]:
    if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
        raise ValueError(f"settings: {key!r} needs a list of values, not {values!r}")
    chosen = list(values)
    if not chosen:
        raise ValueError(f"settings: {key!r} needs at least one value")
    texts = [_override(key, value) for value in chosen]
    twice = [text for text, count in Counter(texts).items() if count > 1]
    if twice:
        raise ValueError(f"settings: {twice[0]} is given twice")
    return chosen


def _override(key: str, value: Any) -> str:
    return _toml.override(key, _named(value, {}))


def _axis(scenario: Scenario, key: str, chosen: Mapping[str, list[Any]]) -> Axis:
    """Return an axis. Raise the first `ScenarioError` if no value of the key is possible."""
    cells: list[Cell] = []
    errors: list[ScenarioError | None] = []
    for value in chosen[key]:
        try:
            ((column, content),) = scenario.with_({"sweep": {key: [value]}}).points[0].items()
            cells.append(Cell(column, content))
            errors.append(None)
        except ScenarioError as error:
            cells.append(_apart(key, value))
            errors.append(error)
    if None not in errors:
        _check_together(scenario, key, chosen, errors)
    return Axis(key, chosen[key], _of_one_kind(cells, errors))


def _check_together(
    scenario: Scenario,
    key: str,
    chosen: Mapping[str, list[Any]],
    errors: list[ScenarioError | None],
) -> None:
    """Raise the first error, unless a value is possible with the first ones of other keys."""
    others = {other: values[0] for other, values in chosen.items()}
    for value in chosen[key]:
        try:
            scenario.with_({**others, key: value})
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
    numbers = {cell.column for cell in cells if isinstance(cell.value, float)}
    first = next((cell.column for cell in cells if isinstance(cell.value, float)), "")
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
    """Return the points of a partition: of 64 equal ones, but for 100 to 1,000 simulated seconds.

    A thousand seconds take about a second, so a worker that dies loses little. With less than a
    hundred, files and messages would take longer than runs.
    """
    point_s = max(duration_s * seed_count, 1e-9)
    least, most = math.ceil(100 / point_s), math.ceil(1000 / point_s)
    return min(most, max(least, point_count // 64))


def batches(point_count: int, size: int, number: int) -> range:
    """Return the points of a partition."""
    return range(number * size, min((number + 1) * size, point_count))


def product_text(axes: Iterable[Axis]) -> str:
    """Return the sizes of axes, such as `3 x 2`."""
    return " x ".join(str(len(axis.values)) for axis in axes) or "1"
