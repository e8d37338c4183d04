"""Comparisons of settings: means, intervals, and differences seed by seed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._errors import UnknownName
from ._progress import Bar, Progress
from ._result import Result
from ._run import ScenarioLike, Seeds, as_scenario, as_seeds, run
from ._scenario import Scenario
from ._statistics import half_width, holm, paired_p
from ._table import Table, html_table, show

if TYPE_CHECKING:
    from ._plot import ComparisonPlots

#: Metrics of a comparison that asks for none, as on the command line.
USUAL_METRICS = (
    "throughput",
    "loss",
    "delay-mean",
    "delay-p95",
    "jain",
    "utilisation",
    "frames-decodable-on-time",
)
#: Short names of settings of the first flow.
SHORT = {"controller": "flows.0.controller", "scheduler": "flows.0.scheduler"}


class Comparison:
    """Metrics of a scenario with different settings, seed by seed.

    `table` has a row for each metric, subject and setting, with the columns `metric`, `unit`,
    `subject`, `label`, `count` (seeds), `mean`, `ci95` (half the width of the 95 % confidence
    interval), and for all labels but the first `diff` (mean difference from the first, seed by
    seed), `diff_ci95`, `p` (Student's paired test) and `p_holm` (corrected for all rows). The four
    numbers have the metric's unit. `results` are the runs by label.

    >>> import anabranch
    >>> compared = anabranch.compare(
    ...     anabranch.testing.small_scenario(),
    ...     vary={"links.up.rate_mbps": [2, 1]}, metrics=["goodput"], seeds=3)
    >>> compared.labels
    ['links.up.rate_mbps=2', 'links.up.rate_mbps=1']
    """

    __slots__ = ("correction", "results", "settings", "table")

    #: Runs by label.
    results: dict[str, Result]
    #: Rows of metrics, subjects and labels.
    table: Table
    #: Correction of `p` in `p_holm`: "holm" or None.
    correction: str | None
    #: Values of the varied settings by label.
    settings: dict[str, dict[str, Any]]

    def __init__(
        self,
        results: dict[str, Result],
        table: Table,
        correction: str | None,
        settings: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        self.results, self.table, self.correction = results, table, correction
        self.settings = settings or {label: {} for label in results}

    @property
    def plot(self) -> ComparisonPlots:
        """Plots on matplotlib axes: `bars`, `cdf`, `heatmap` and `frontier`.

        >>> import anabranch
        >>> small = anabranch.testing.small_scenario()
        >>> compared = anabranch.compare(small, vary={"scheduler": ["wrr"]}, seeds=1)
        >>> compared.plot.bars("loss").get_ylabel()
        'loss (%)'
        """
        from ._plot import ComparisonPlots

        return ComparisonPlots(self)

    @property
    def labels(self) -> list[str]:
        """Labels of the compared settings; the first is that of the differences.

        >>> import anabranch
        >>> small = anabranch.testing.small_scenario()
        >>> anabranch.compare(small, vary={"scheduler": ["wrr"]}, seeds=1).labels
        ['scheduler=wrr']
        """
        return list(self.results)

    def to_pandas(self) -> Any:
        """Return the table as a `pandas.DataFrame`. Raises `MissingExtra`.

        >>> import anabranch
        >>> small = anabranch.testing.small_scenario()
        >>> vary = {"scheduler": ["wrr"]}
        >>> compared = anabranch.compare(small, vary=vary, metrics=["loss"], seeds=2)
        >>> len(compared.to_pandas())
        1
        """
        return self.table.to_pandas()

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.labels)}>"

    def _repr_html_(self) -> str:
        table = self.table
        rows: dict[tuple[Any, ...], list[str]] = {}
        for at in range(len(table)):
            key = (table["metric"][at], table["subject"][at], table["unit"][at])
            text = f"{show(table['mean'][at])} ± {show(table['ci95'][at])}"
            p = table["p_holm" if self.correction else "p"][at]
            rows.setdefault(key, []).append(text + (" *" if p < 0.05 else ""))
        body = [[*key, *cells] for key, cells in rows.items()]
        caption = "means with 95 % confidence; * differs from the first at p < 0.05, seed by seed"
        return html_table(["metric", "subject", "unit", *self.labels], body, caption)


def _labelled(vary: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, Any]]:
    """Return the settings of each combination by its label."""
    if not vary:
        raise ValueError("vary: no setting to compare")
    for key, values in vary.items():
        if isinstance(values, str) or not len(values):
            raise ValueError(f"vary: {key!r} needs a list of values")
    found: dict[str, dict[str, Any]] = {}
    for combination in itertools.product(*vary.values()):
        pairs = list(zip(vary, combination, strict=True))
        label = ", ".join(f"{key}={_shown(value)}" for key, value in pairs)
        if label in found:
            raise ValueError(f"vary: {label} is there twice")
        found[label] = dict(pairs)
    return found


def _shown(value: Any) -> str:
    if isinstance(value, type):
        return value.__name__
    return str(getattr(value, "name", "") or value)


def _columns(metrics: Sequence[str]) -> list[dict[str, str]]:
    """Return column, unit and scope of each metric, by its name or its column's name."""
    table = Table(_native.metrics())
    rows = [
        {name: str(table[name][at]) for name in ("metric", "column", "unit", "scope")}
        for at in range(len(table))
    ]
    found = []
    for asked in metrics:
        match = [row for row in rows if asked in (row["metric"], row["column"])]
        if not match:
            known = [row["metric"] for row in rows]
            near = _native.nearest_name(asked, known)
            hint = f"; did you mean {near!r}?" if near else ""
            text = f"no metric is called {asked!r}; known are {', '.join(known)}{hint}"
            raise UnknownName(text, known, near)
        found.append(match[0])
    return found


def _values(result: Result, column: dict[str, str]) -> dict[str | None, NDArray[np.float64]]:
    """Return the values of a metric by subject, a value for each seed."""
    name, scope = column["column"], column["scope"]
    if scope in ("run", "flows"):
        return {None: result.runs[name]}
    subject, table = ("link", result.links) if scope == "links" else ("flow", result.flows)
    return {who: table[name][table[subject] == who] for who in table.categories(subject)}


def _rows(results: dict[str, Result], columns: list[dict[str, str]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    by_label = {label: [_values(result, c) for c in columns] for label, result in results.items()}
    first = next(iter(by_label.values()))
    for at, column in enumerate(columns):
        for subject in first[at]:
            base = first[at][subject]
            for number, (label, values) in enumerate(by_label.items()):
                own = values[at].get(subject, np.full(len(base), np.nan))
                if number == 0 and np.all(np.isnan(own)):
                    break
                rows.append(_row(column, subject, label, own, None if number == 0 else base))
    return rows


def _row(
    column: dict[str, str],
    subject: str | None,
    label: str,
    own: NDArray[np.float64],
    base: NDArray[np.float64] | None,
) -> dict[str, Any]:
    nan = float("nan")
    known = own[~np.isnan(own)]
    diff = diff_ci95 = p = nan
    if base is not None and len(base) == len(own):
        differences = (own - base)[~np.isnan(own - base)]
        if len(differences):
            diff = float(differences.mean())
            diff_ci95, p = half_width(differences, 0.95), paired_p(differences)
    return {
        "metric": column["metric"],
        "unit": column["unit"],
        "subject": subject,
        "label": label,
        "count": len(known),
        "mean": float(known.mean()) if len(known) else nan,
        "ci95": half_width(known, 0.95),
        "diff": diff,
        "diff_ci95": diff_ci95,
        "p": p,
    }


def compare(
    scenario: ScenarioLike,
    *,
    vary: Mapping[str, Sequence[Any]],
    metrics: Sequence[str] = USUAL_METRICS,
    seeds: Seeds = 10,
    threads: int = 0,
    correction: Literal["holm"] | None = "holm",
    trace: str | Sequence[str] | bool = (),
    progress: Progress = "auto",
) -> Comparison:
    """Run a scenario with every combination of settings and the same seeds, and compare metrics.

    `vary`: values by key, as in `Scenario.with_`; `controller` and `scheduler` stand for those of
    the first flow. `metrics`: names as in `anabranch.metrics()`, or names of their columns. The
    first combination is the one from which all others differ. Equal seeds meet the same network,
    so that differences are taken seed by seed.

    Raises `ValueError` for no settings, a scenario with a sweep, or no seeds, `UnknownName` for a
    metric, `KeyboardInterrupt` after Ctrl-C, and what `run` raises.

    >>> import anabranch
    >>> compared = anabranch.compare(
    ...     anabranch.testing.small_scenario(),
    ...     vary={"controller": ["live-bbr", "fixed"]}, metrics=["loss"], seeds=2)
    >>> compared.table["label"].tolist()
    ['controller=live-bbr', 'controller=fixed']
    """
    chosen = as_scenario(scenario)
    if chosen.point_count > 1:
        raise ValueError("compare: the scenario has a sweep; remove it by with_({'sweep': {}})")
    all_seeds = as_seeds(seeds)
    columns = _columns(metrics)
    labelled = _labelled(vary)
    variants: dict[str, Scenario] = {
        label: chosen.with_({SHORT.get(key, key): value for key, value in settings.items()})
        for label, settings in labelled.items()
    }
    total_s = sum(variant.duration_s for variant in variants.values()) * len(all_seeds)
    bar = Bar(progress, total_s)
    try:
        results = {}
        for label, variant in variants.items():
            results[label] = run(
                variant, all_seeds, threads=threads, trace=trace, progress=bar.call or False
            )
            if results[label].is_partial:
                raise KeyboardInterrupt
    finally:
        bar.close()
    rows = _rows(results, columns)
    ps = [row["p"] for row in rows]
    for row, p in zip(rows, holm(ps) if correction == "holm" else ps, strict=True):
        row["p_holm"] = p
    names = ["metric", "unit", "subject", "label", "count", "mean", "ci95", "diff", "diff_ci95"]
    table = {name: [row[name] for row in rows] for name in [*names, "p", "p_holm"]}
    return Comparison(results, Table.from_columns(table), correction, labelled)
