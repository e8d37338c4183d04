"""Plots for papers: results, comparisons, and claims beside the papers' numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from . import _native
from ._errors import UnknownName
from ._plot_parts import (
    Better,
    draw_bars,
    draw_cdf,
    draw_heatmap,
    groups_of,
    metric_of,
    one_run,
    pareto,
    plain,
    pooled,
    shade_outages,
    split,
    subject_of,
    values_of,
)
from ._statistics import half_width
from ._style import (
    Overlay,
    Style,
    axis_label,
    bar_look,
    draw_overlay,
    drawing,
    legend,
    line_look,
    mark_look,
    scale_of,
    unit_of,
)

if TYPE_CHECKING:
    from ._compare import Comparison
    from ._papers import Findings
    from ._result import Result

#: Columns that name a row of each series.
KEYS = {
    "path_series": ("flow", "route"),
    "flow_series": ("flow",),
    "link_series": ("link",),
}


class ResultPlots:
    """Plots of a result, as `result.plot`. Each returns the matplotlib axes that it drew on.

    `ax`: axes to draw on; without, a new figure. `style`: "column" for a figure of one column
    (3.5 in), "page" for both (7.16 in). Colours are those of Okabe and Ito, which colour-blind
    readers tell apart; lines, marks and hatches differ, too. `overlay`: curves of others, such as
    digitised ones of a paper, by label: x and y in the units of the axes.

    All raise `MissingExtra` without matplotlib, `UnknownName` for a column, and for a trace that
    was not asked for, and `ValueError` for an unknown style, point or seed.

    >>> import anabranch
    >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=2)
    >>> result.plot.cdf("frame_delay").get_xlabel()
    'frame delay (ms)'
    """

    __slots__ = ("_result",)

    def __init__(self, result: Result) -> None:
        self._result = result

    def timeline(
        self,
        *,
        point: int = 0,
        seed: int | None = None,
        ax: Any = None,
        style: Style = "column",
        overlay: Overlay | None = None,
    ) -> Any:
        """Draw each frame's delay in ms over the time of its capture in s, of one run.

        Frames that were given up are crosses at the top edge. `seed`: by default the first. Needs
        the trace "frames".

        >>> import anabranch
        >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=1)
        >>> result.plot.timeline().get_xlabel()
        'captured (s)'
        """
        frames = one_run(self._result.frames, point, seed)
        with drawing(ax, style) as ax:
            for number, flow in enumerate(frames.categories("flow")):
                own = frames.where(flow=flow)
                is_complete = own["outcome"] == "complete"
                look = mark_look(number)
                ax.plot(
                    own["captured_s"][is_complete],
                    own["delay_ms"][is_complete],
                    **{**look, "marker": "."},
                    label=flow,
                )
                lost = own["captured_s"][~is_complete]
                if len(lost):
                    ax.plot(
                        lost,
                        np.ones(len(lost)),
                        **{**look, "marker": "x"},
                        transform=ax.get_xaxis_transform(),
                        clip_on=False,
                        label=f"{flow}, given up",
                    )
            draw_overlay(ax, overlay)
            ax.set_xlabel(axis_label("captured_s", "s"))
            ax.set_ylabel(axis_label("frame_delay_ms", "ms"))
            ax.set_ylim(bottom=0)
            legend(ax)
        return ax

    def cdf(
        self,
        value: str = "frame_delay",
        *,
        by: str | Sequence[str] | None = None,
        include_lost: bool = True,
        ax: Any = None,
        style: Style = "column",
        overlay: Overlay | None = None,
    ) -> Any:
        """Draw the distribution of a value over all points and seeds, a curve for each group.

        `value`: "frame_delay" (trace "frames"), "packet_delay" (trace "packets"), or a column of
        `flows`. `by`: columns that make a group, by default the swept settings and the flow; the
        columns of `flows`, such as "scheduler", are known for frames, too. Lost frames and packets
        count: their curve ends below 1 and rises to 1 at the right edge. `include_lost=False` drops
        them.

        >>> import anabranch
        >>> lossy = anabranch.testing.small_scenario().with_({"links.up.loss": 0.3})
        >>> result = anabranch.run(lossy, seeds=2)
        >>> bool(result.plot.cdf("frame_delay").lines[0].get_ydata()[-1] < 1)
        True
        """
        groups = groups_of(self._result, value, by)
        return draw_cdf(groups, value, include_lost, ax, style, overlay)

    def series(
        self,
        column: str = "delivered_bps",
        *,
        table: Literal["path_series", "flow_series", "link_series"] = "path_series",
        point: int = 0,
        seed: int | None = None,
        outages: bool = True,
        ax: Any = None,
        style: Style = "column",
        overlay: Overlay | None = None,
    ) -> Any:
        """Draw a column of a series over time in s, of one run: a line for each path, flow or link.

        Rates are in Mbit/s. `outages`: shade the times in which a path is suspect (light) or out
        (dark) in its sender's view. `seed`: by default the first. Needs the trace "series".

        >>> import anabranch
        >>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=1, trace="series")
        >>> result.plot.series("delivered_bps").get_ylabel()
        'delivered (Mbit/s)'
        """
        if table not in KEYS:
            raise UnknownName(f"no series is called {table!r}", list(KEYS))
        rows = one_run(self._result.table(table), point, seed)
        factor, _ = scale_of(unit_of(column))
        with drawing(ax, style) as ax:
            for number, (label, own) in enumerate(split(rows, KEYS[table])):
                ax.plot(own["time_s"], factor * own[column], label=label, **line_look(number))
            if outages:
                shade_outages(ax, one_run(self._result.path_series, point, seed))
            draw_overlay(ax, overlay)
            ax.set_xlabel(axis_label("time_s", "s"))
            ax.set_ylabel(axis_label(column, unit_of(column)))
            if np.nanmin(rows[column], initial=0.0) >= 0:
                ax.set_ylim(bottom=0)
            legend(ax)
        return ax

    def heatmap(
        self,
        x: str,
        y: str,
        value: str = "frame_delay",
        *,
        ax: Any = None,
        style: Style = "column",
    ) -> Any:
        """Draw a metric's mean over seeds and flows for each pair of two swept settings.

        `x`, `y`: of `result.settings`. `value`: a metric of `anabranch.metrics()` or its column;
        of links, the one of the busiest link.

        >>> import anabranch
        >>> swept = anabranch.testing.small_scenario().with_(
        ...     {"sweep": {"links.up.rate_mbps": [1, 2], "links.up.delay_ms": [20, 40]}})
        >>> result = anabranch.run(swept, seeds=1)
        >>> ax = result.plot.heatmap("links.up.rate_bps", "links.up.delay_ms", "loss")
        >>> ax.get_xlabel()
        'links.up.rate (Mbit/s)'
        """
        for name in (x, y):
            if name not in self._result.settings:
                known = self._result.settings
                near = _native.nearest_name(name, known)
                text = f"no swept setting is called {name!r}; there are {', '.join(known)}"
                raise UnknownName(text, known, near)
        column = metric_of(value)
        runs = self._result.runs
        values = values_of(self._result, column, None)
        pairs = list(zip(runs[x].tolist(), runs[y].tolist(), strict=True))
        return draw_heatmap(pairs, values, column, (x, y), ax, style)


class ComparisonPlots:
    """Plots of a comparison, as `comparison.plot`. Arguments and errors are as in `ResultPlots`.

    >>> import anabranch
    >>> compared = anabranch.compare(
    ...     anabranch.testing.small_scenario(), vary={"controller": ["live-bbr", "fixed"]},
    ...     metrics=["goodput"], seeds=2)
    >>> compared.plot.bars().get_ylabel()
    'goodput (Mbit/s)'
    """

    __slots__ = ("_comparison",)

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison

    def bars(
        self,
        metric: str | None = None,
        *,
        paper: Mapping[str, float] | None = None,
        ax: Any = None,
        style: Style = "column",
    ) -> Any:
        """Draw a metric's means with 95 % confidence intervals, a bar for each label.

        `metric`: one of the comparison, by default its first. Flows or links are groups of bars.
        A star marks a difference from the first label with p < 0.05, corrected as the comparison.
        `paper`: a paper's number by label, in the unit of the axis, drawn as a black diamond.

        >>> import anabranch
        >>> compared = anabranch.compare(
        ...     anabranch.testing.small_scenario(), vary={"controller": ["live-bbr", "fixed"]},
        ...     metrics=["loss"], seeds=2)
        >>> len(compared.plot.bars("loss").patches)
        2
        """
        table = self._comparison.table
        known = table.categories("metric")
        asked = metric_of(known[0] if metric is None else metric)
        name = asked.metric
        if name not in known:
            text = f"{name} was not compared: there are {', '.join(known)}"
            raise UnknownName(text, known, _native.nearest_name(name, known))
        for label in paper or {}:
            if label not in self._comparison.labels:
                raise UnknownName(f"no label is called {label!r}", self._comparison.labels)
        rows = table.where(metric=name)
        if asked.subject is not None:
            rows = rows.where(subject=asked.subject)
            if not len(rows):
                raise UnknownName(f"{metric} was not compared", known)
        subjects = list(dict.fromkeys(rows["subject"].tolist()))
        labels = [each for each in self._comparison.labels if each in rows["label"]]
        factor, _ = scale_of(str(rows["unit"][0]))
        with drawing(ax, style) as ax:
            for number, label in enumerate(labels):
                own = rows.where(label=label)
                at = np.array([subjects.index(subject) for subject in own["subject"].tolist()])
                offset = (number - (len(labels) - 1) / 2) * 0.8 / len(labels)
                draw_bars(ax, at + offset, own, factor, label, number, 0.8 / len(labels))
                if paper and label in paper:
                    ax.plot(at + offset, [paper[label]] * len(at), "kD", markerfacecolor="white")
            # A single group of all flows needs no name.
            names = ["all flows" if each is None else each for each in subjects]
            names = [] if subjects == [None] else names
            ax.set_xticks(range(len(names)), names)
            ax.set_ylabel(axis_label(name, str(rows["unit"][0])))
            legend(ax)
        return ax

    def cdf(
        self,
        value: str = "frame_delay",
        *,
        include_lost: bool = True,
        ax: Any = None,
        style: Style = "column",
        overlay: Overlay | None = None,
    ) -> Any:
        """Draw distributions as `ResultPlots.cdf`, a curve for each label.

        Frames and packets need `compare(…, trace=["frames"])` or "packets".

        >>> import anabranch
        >>> compared = anabranch.compare(
        ...     anabranch.testing.small_scenario(), vary={"controller": ["live-bbr", "fixed"]},
        ...     metrics=["loss"], seeds=2, trace=["frames"])
        >>> len(compared.plot.cdf("frame_delay").get_legend().get_texts())
        2
        """
        groups = [
            (label, *pooled(groups_of(result, value, ())))
            for label, result in self._comparison.results.items()
        ]
        return draw_cdf(groups, value, include_lost, ax, style, overlay)

    def heatmap(
        self,
        x: str,
        y: str,
        metric: str | None = None,
        *,
        ax: Any = None,
        style: Style = "column",
    ) -> Any:
        """Draw a metric's mean over seeds for each pair of two varied settings.

        `x`, `y`: keys of `vary`. `metric`: by default the first of the comparison; of links, the
        one of the busiest link.

        >>> import anabranch
        >>> compared = anabranch.compare(
        ...     anabranch.testing.small_scenario(), seeds=1, metrics=["loss"],
        ...     vary={"controller": ["live-bbr", "fixed"], "links.up.rate_mbps": [1, 2]})
        >>> compared.plot.heatmap("links.up.rate_mbps", "controller").get_ylabel()
        'controller'
        """
        settings = self._comparison.settings
        keys = list(next(iter(settings.values())))
        for name in (x, y):
            if name not in keys:
                near = _native.nearest_name(name, keys)
                raise UnknownName(f"{name!r} was not varied: {', '.join(keys)}", keys, near)
        column = metric_of(metric or self._comparison.table.categories("metric")[0])
        results = self._comparison.results
        values = [values_of(result, column, None) for result in results.values()]
        pairs = [
            (plain(settings[label][x]), plain(settings[label][y]))
            for label, each in zip(results, values, strict=True)
            for _ in each
        ]
        return draw_heatmap(pairs, np.concatenate(values), column, (x, y), ax, style)

    def frontier(
        self,
        x: str = "queueing_delay",
        y: str = "utilisation",
        *,
        better: tuple[Better, Better] = ("lower", "higher"),
        subject: str | None = None,
        ax: Any = None,
        style: Style = "column",
        overlay: Overlay | None = None,
    ) -> Any:
        """Draw two metrics against each other, a point for each label, and the Pareto frontier.

        The frontier joins the labels that no other beats in both means. Crosses are 95 % confidence
        intervals. `x`, `y`: metrics or their columns; "queueing_delay" is `queue-wait-mean`.
        `better`: whether lower or higher values of x and of y are better. `subject`: link or flow,
        for metrics of one; by default the busiest link of the first label, or the first flow.

        >>> import anabranch
        >>> compared = anabranch.compare(
        ...     anabranch.testing.small_scenario(), vary={"controller": ["live-bbr", "fixed"]},
        ...     metrics=["loss"], seeds=2)
        >>> compared.plot.frontier().get_xlabel()
        'queue wait mean (ms)'
        """
        columns = (metric_of(x), metric_of(y))
        first = next(iter(self._comparison.results.values()))
        subjects = [subject or subject_of(first, column) for column in columns]
        scales = [scale_of(column.unit)[0] for column in columns]
        points: list[tuple[float, float]] = []
        with drawing(ax, style) as ax:
            for number, (label, result) in enumerate(self._comparison.results.items()):
                both = [
                    factor * values_of(result, column, own)
                    for column, own, factor in zip(columns, subjects, scales, strict=True)
                ]
                known = [each[~np.isnan(each)] for each in both]
                mean = [float(each.mean()) if len(each) else float("nan") for each in known]
                half = [half_width(each, 0.95) for each in known]
                error = [0.0 if np.isnan(each) else each for each in half]
                look = {**mark_look(number), "linewidth": 0.8, "label": label}
                ax.errorbar(mean[0], mean[1], xerr=error[0], yerr=error[1], **look)
                points.append((mean[0], mean[1]))
            best = pareto(points, better)
            ax.plot(*zip(*best, strict=True), color="grey", linewidth=0.8, zorder=0)
            draw_overlay(ax, overlay)
            ax.set_xlabel(axis_label(columns[0].metric, columns[0].unit))
            ax.set_ylabel(axis_label(columns[1].metric, columns[1].unit))
            legend(ax)
        return ax


class FindingsPlots:
    """Plots of claims, as `findings.plot`.

    >>> import anabranch
    >>> value = {"name": "a", "unit": "ms", "paper_value": 20.0,
    ...     "ours": {"median": 21.0, "min": 20.0, "max": 22.0}}
    >>> claim = {"id": "X", "verdict": "holds", "seed_count": 3, "values": [value]}
    >>> anabranch.Findings({"findings": [claim]}).plot.bars().get_ylabel()
    '(ms)'
    """

    __slots__ = ("_findings",)

    def __init__(self, findings: Findings) -> None:
        self._findings = findings

    def bars(self, *, unit: str | None = None, ax: Any = None, style: Style = "page") -> Any:
        """Draw the papers' printed numbers (black diamonds) beside ours: medians and ranges.

        `unit`: as in the claims' values, such as "ms", "ratio" or "bits_per_second"; by default
        the one with the most numbers. Raises `ValueError` if no claim prints a number.

        >>> import anabranch
        >>> anabranch.reproduce("S0-T1", seeds=2).plot.bars()  # doctest: +SKIP
        """
        values = [
            (finding["id"], value)
            for finding in self._findings.findings
            for value in finding.get("values") or []
            if value.get("paper_value") is not None and value.get("ours") is not None
        ]
        units = [value["unit"] for _, value in values]
        if not units or (unit is not None and unit not in units):
            about = "" if unit is None else f" in {unit}"
            raise ValueError(f"none of these claims prints a number{about} that was measured")
        chosen = unit or max(units, key=units.count)
        shown = [(claim, value) for claim, value in values if value["unit"] == chosen]
        factor, name = scale_of(chosen)
        at = np.arange(len(shown))
        ours = factor * np.array(
            [[v["ours"][k] for k in ("median", "min", "max")] for _, v in shown]
        )
        with drawing(ax, style) as ax:
            error = [ours[:, 0] - ours[:, 1], ours[:, 2] - ours[:, 0]]
            ax.bar(at, ours[:, 0], 0.6, yerr=error, label="measured", capsize=2, **bar_look(0))
            printed = [factor * value["paper_value"] for _, value in shown]
            ax.plot(at, printed, "kD", markerfacecolor="white", label="paper")
            labels = [f"{claim}: {value['name']}" for claim, value in shown]
            ax.set_xticks(at, labels, rotation=30, ha="right")
            ax.set_ylabel(f"({name})" if name else "")
            legend(ax)
        return ax
