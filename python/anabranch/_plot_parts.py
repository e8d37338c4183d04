"""Parts of plots: the choice of rows and values, and marks that several plots share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ._compare_parts import Asked, metric_named, shown
from ._errors import UnknownName
from ._style import (
    COLOUR_MAP,
    Overlay,
    Style,
    axis_label,
    bar_look,
    draw_overlay,
    drawing,
    legend,
    line_look,
    scale_of,
    unit_of,
)
from ._table import Table

if TYPE_CHECKING:
    from ._result import Result

#: Distributions of single events: table and column.
EVENTS = {"frame_delay": ("frames", "delay_ms"), "packet_delay": ("packets", "delay_ms")}
#: Words of papers for metrics.
ALIASES = {
    "frame_delay": "frame-delay-p95",
    "queueing_delay": "queue-wait-mean",
    "queuing_delay": "queue-wait-mean",
    "packet_delay": "delay-mean",
}
Floats = NDArray[np.float64]
Better = Literal["lower", "higher"]


def one_run(table: Table, point: int, seed: int | None) -> Table:
    """Return the rows of a run; without `seed`, the first. Raises `ValueError` for none."""
    of_point = table.where(point=point)
    if not len(of_point):
        raise ValueError(f"point: no rows of point {point}; the first is 0")
    chosen = int(of_point["seed"][0]) if seed is None else seed
    rows = of_point.where(seed=chosen)
    if not len(rows):
        raise ValueError(f"seed: no rows of seed {chosen}")
    return rows


def split(table: Table, names: Sequence[str]) -> Iterator[tuple[str, Table]]:
    """Yield the rows of each combination of texts or numbers, with a label of those that vary."""
    if not len(table):
        return
    columns = [table[name].tolist() for name in names]
    keys = list(zip(*columns, strict=True)) if names else [()] * len(table)
    different = [len(set(column)) > 1 for column in columns]
    rows: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate(keys):
        rows.setdefault(key, []).append(row)
    for key, own in rows.items():
        parts = [
            _label(name, value)
            for name, value, varies in zip(names, key, different, strict=True)
            if varies
        ]
        yield ", ".join(parts) or (str(key[-1]) if key else ""), table.filter(own)


def _label(name: str, value: Any) -> str:
    if isinstance(value, str) or value is None:
        return str(value)
    factor, unit = scale_of(unit_of(name))
    words = name
    for end in ("_bps", "_ms", "_s", "_bytes"):
        words = words.removesuffix(end)
    return f"{words}={factor * value:g}{' ' + unit if unit else ''}"


def groups_of(
    result: Result, value: str, by: str | Sequence[str] | None
) -> list[tuple[str, Floats, int]]:
    """Return label, values and number of lost events of each group."""
    name, column = EVENTS.get(value.removesuffix("_ms"), ("flows", value))
    table = result.table(name)
    if name == "packets":
        is_forward = table["direction"] == "forward"
        table = table.filter(is_forward & (table["event"] != "sent"))
    usual = [*result.settings, "flow"]
    names = usual if by is None else [by] if isinstance(by, str) else list(by)
    found = []
    for label, own in split(_with_flows(result, table, names), names):
        values = np.asarray(own[column], dtype=np.float64)
        if name == "frames":
            is_known = own["outcome"] == "complete"
        elif name == "packets":
            is_known = own["event"] == "delivered"
        else:
            is_known = np.ones(len(own), dtype=np.bool_)
        known = values[is_known & ~np.isnan(values)]
        found.append((label, known, int(np.count_nonzero(~is_known))))
    return found


def _with_flows(result: Result, table: Table, names: Sequence[str]) -> Table:
    """Return a table with the columns of `flows` that it lacks and that are asked for."""
    lacking = [name for name in names if name not in table and name in result.flows]
    if not lacking:
        return table
    flows, keys = result.flows, ("point", "seed", "flow")
    rows = {key: at for at, key in enumerate(zip(*(flows[k].tolist() for k in keys), strict=True))}
    at = [rows[key] for key in zip(*(table[k].tolist() for k in keys), strict=True)]
    return Table.from_columns({**table.to_dict(), **{name: flows[name][at] for name in lacking}})


def pooled(groups: list[tuple[str, Floats, int]]) -> tuple[Floats, int]:
    """Return the values and the number of lost events of all groups."""
    return np.concatenate([values for _, values, _ in groups]), sum(lost for *_, lost in groups)


def draw_cdf(
    groups: list[tuple[str, Floats, int]],
    value: str,
    include_lost: bool,
    ax: Any,
    style: Style,
    overlay: Overlay | None,
) -> Any:
    """Draw distributions; lost events are a step to 1 at the right edge."""
    unit = "ms" if value in EVENTS else unit_of(value)
    factor, _ = scale_of(unit)
    if not any(len(values) for _, values, _ in groups):
        raise ValueError(f"cdf: there are no values of {value}")
    largest = max(float(values.max()) for _, values, _ in groups if len(values))
    edge = factor * (1.05 * largest if largest > 0 else 1.0)
    with drawing(ax, style) as ax:
        draw_overlay(ax, overlay)
        for xs, _ in (overlay or {}).values():
            edge = max(edge, *map(float, xs))
        edge = max(edge, ax.get_xlim()[1]) if ax.lines else edge
        for number, (label, values, lost) in enumerate(groups):
            count = len(values) + (lost if include_lost else 0)
            ordered = factor * np.sort(values)
            share = np.arange(1, len(values) + 1) / max(count, 1)
            look = line_look(number)
            x = np.concatenate((ordered[:1], ordered, [edge]))
            y = np.concatenate(([0.0], share, share[-1:] if len(share) else [0.0]))
            x = x if len(ordered) else np.array([edge])
            ax.plot(x, y, drawstyle="steps-post", label=label, **look)
            if include_lost and lost:
                # The lost ones, at the right edge: later than anything that arrived.
                top = {"color": look["color"], "marker": ">", "clip_on": False, "zorder": 3}
                ax.plot([edge, edge], [y[-1], 1.0], linewidth=0.8, markevery=[1], **top)
        ax.set_xlim(right=edge)
        ax.set_ylim(0, 1)
        ax.set_xlabel(axis_label(value, unit))
        ax.set_ylabel(f"share of {EVENTS.get(value, ('flows',))[0]}")
        legend(ax)
    return ax


def shade_outages(ax: Any, series: Table) -> None:
    """Shade the times in which a path is suspect or out, once for each state."""
    shades = {"suspect": ("0.9", "suspect"), "out": ("0.75", "out")}
    labelled: set[str] = set()
    for _, own in split(series, ("flow", "path")):
        times, states = own["time_s"], own["state"]
        bounds = np.flatnonzero(states[1:] != states[:-1]) + 1
        for first, last in zip([0, *bounds], [*bounds, len(states)], strict=True):
            if states[first] in shades:
                colour, label = shades[states[first]]
                begin = times[first - 1] if first else 0.0
                shown = None if label in labelled else label
                ax.axvspan(begin, times[last - 1], color=colour, linewidth=0, zorder=0, label=shown)
                labelled.add(label)


def metric_of(name: str) -> Asked:
    """Return a metric by its name, column or a paper's word, and its flow or link after a dot."""
    word, dot, subject = name.partition(".")
    return metric_named(ALIASES.get(word, word) + dot + subject)


def subject_of(result: Result, column: Asked) -> str | None:
    """Return the flow or link of a metric: named, or the busiest link, or the first flow."""
    if column.subject is not None:
        return column.subject
    if column.scope == "links":
        names = result.links.categories("link")
        busy = [np.nanmean([0.0, *result.links.where(link=n)["utilisation"]]) for n in names]
        return names[int(np.argmax(busy))]
    if column.scope == "each flow":
        return result.flows.categories("flow")[0]
    return None


def values_of(result: Result, column: Asked, subject: str | None) -> Floats:
    """Return a metric of each run."""
    subject = subject_of(result, column) if subject is None else subject
    if column.scope == "links":
        rows = result.links.where(link=subject)
    elif column.scope == "each flow" or (column.scope == "flows" and subject is not None):
        rows = result.flows.where(flow=subject)
    else:
        rows = result.runs
    if not len(rows):
        raise UnknownName(f"no flow or link is called {subject!r}")
    return np.asarray(rows[column.column], dtype=np.float64)


def draw_bars(
    ax: Any, at: Any, rows: Table, factor: float, label: str, number: int, width: float
) -> None:
    """Draw a label's bars with intervals, and a star where it differs from the first label."""
    mean, half = factor * rows["mean"], factor * rows["ci95"]
    error = np.nan_to_num(half)
    style = {"capsize": 2, "error_kw": {"elinewidth": 0.8}}
    ax.bar(at, mean, width, yerr=error, label=label, **bar_look(number), **style)
    is_different = np.nan_to_num(rows["p_holm"], nan=1.0) < 0.05
    tops = zip(at[is_different], (mean + error)[is_different], strict=True)
    for x, top in tops:
        ax.annotate("*", (x, top), ha="center", va="bottom")


def plain(value: Any) -> Any:
    """Return a setting's value for an axis: a number, a text or a name."""
    is_plain = isinstance(value, (int, float, str, np.integer, np.floating))
    return value if is_plain else shown(value)


def draw_heatmap(
    pairs: list[tuple[Any, Any]],
    values: Floats,
    column: Asked,
    names: tuple[str, str],
    ax: Any,
    style: Style,
) -> Any:
    """Draw the mean of the values of each pair of settings."""
    columns, rows = (_in_order([pair[at] for pair in pairs]) for at in (0, 1))
    factor, _ = scale_of(column.unit)
    cells: dict[tuple[Any, Any], list[float]] = {}
    for pair, value in zip(pairs, values, strict=True):
        if not np.isnan(value):
            cells.setdefault(pair, []).append(factor * float(value))
    grid = np.array([[np.mean(cells.get((x, y), [np.nan])) for x in columns] for y in rows])
    with drawing(ax, style) as ax:
        image = ax.imshow(grid, cmap=COLOUR_MAP, aspect="auto", origin="lower")
        ax.figure.colorbar(image, ax=ax, label=axis_label(column.metric, column.unit))
        middle = (np.nanmin(grid) + np.nanmax(grid)) / 2 if np.any(~np.isnan(grid)) else 0.0
        for row, column_at in np.ndindex(grid.shape):
            shade = "black" if grid[row, column_at] > middle else "white"
            text = "" if np.isnan(grid[row, column_at]) else f"{grid[row, column_at]:.3g}"
            ax.text(column_at, row, text, ha="center", va="center", color=shade, fontsize=7)
        ax.set_xticks(range(len(columns)), [_tick(names[0], each) for each in columns])
        ax.set_yticks(range(len(rows)), [_tick(names[1], each) for each in rows])
        ax.set_xlabel(axis_label(names[0], unit_of(names[0])))
        ax.set_ylabel(axis_label(names[1], unit_of(names[1])))
    return ax


def _in_order(values: list[Any]) -> list[Any]:
    """Return different values: numbers by size, others as they come."""
    different = list(dict.fromkeys(values))
    is_number = all(isinstance(value, (int, float)) for value in different)
    return sorted(different) if is_number else different


def _tick(name: str, value: Any) -> str:
    return (
        f"{scale_of(unit_of(name))[0] * value:g}" if isinstance(value, (int, float)) else str(value)
    )


def pareto(
    points: list[tuple[float, float]], better: tuple[Better, Better]
) -> list[tuple[float, float]]:
    """Return the points that no other beats in both, from the best x on."""
    for each in better:
        if each not in ("lower", "higher"):
            raise ValueError(f"better: {each!r} is neither lower nor higher")
    signs = [1.0 if each == "lower" else -1.0 for each in better]
    known = [point for point in points if not np.isnan(point).any()]
    best: list[tuple[float, float]] = []
    for point in sorted(known, key=lambda p: (signs[0] * p[0], signs[1] * p[1])):
        if not best or signs[1] * point[1] < signs[1] * best[-1][1]:
            best.append(point)
    return best or [(float("nan"), float("nan"))]
