"""Comparisons of settings: means, intervals, and differences seed by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ._compare_parts import Asked, asked_of, check_subjects, labelled, varied
from ._progress import Bar, Progress
from ._result import Result
from ._run import ScenarioLike, Seeds, as_scenario, as_seeds, run
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


def _values(result: Result, asked: Asked) -> dict[str | None, NDArray[np.float64]]:
    """Return the values of a metric by subject, a value for each seed."""
    if asked.subject is None and asked.scope in ("run", "flows"):
        return {None: result.runs[asked.column]}
    subject, table = ("link", result.links) if asked.scope == "links" else ("flow", result.flows)
    names = table.categories(subject) if asked.subject is None else [asked.subject]
    return {name: table[asked.column][table[subject] == name] for name in names}


def _rows(results: dict[str, Result], metrics: list[Asked]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    by_label = {label: [_values(result, m) for m in metrics] for label, result in results.items()}
    first = next(iter(by_label.values()))
    for at, asked in enumerate(metrics):
        for subject in first[at]:
            base = first[at][subject]
            for number, (label, values) in enumerate(by_label.items()):
                own = values[at].get(subject, np.full(len(base), np.nan))
                # Links without a rate have no utilisation. One that was named has a row.
                if number == 0 and np.all(np.isnan(own)) and asked.subject is None:
                    break
                rows.append(_row(asked, subject, label, own, None if number == 0 else base))
    return rows


def _row(
    asked: Asked,
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
        "metric": asked.metric,
        "unit": asked.unit,
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

    `vary`: values by key, as in `Scenario.with_`, and as on the command line: `controller` and
    `scheduler` replace those of the first flow, and of every flow with the same one; another key
    without a dot, such as `padding`, is one of the first flow if the scenario itself has none of
    that name. `metrics`: names as in `anabranch.metrics()`, or names of their columns, of all flows
    together, or of one flow or link (`throughput.camera`). The first combination is the one from
    which all others differ. Equal seeds meet the same network, so that differences are taken seed
    by seed.

    Raises `ValueError` for no settings, a scenario with a sweep, or no seeds, `UnknownName` for a
    metric, flow or link, `KeyboardInterrupt` after Ctrl-C, and what `run` raises.

    >>> import anabranch
    >>> compared = anabranch.compare(
    ...     anabranch.testing.small_scenario(),
    ...     vary={"controller": ["live-bbr", "fixed"]}, metrics=["loss"], seeds=2)
    >>> compared.table["label"].tolist()
    ['controller=live-bbr', 'controller=fixed']
    >>> named = anabranch.compare(
    ...     anabranch.testing.small_scenario(),
    ...     vary={"padding": ["never"]}, metrics=["loss.camera", "utilisation.up"], seeds=2)
    >>> named.table["subject"].tolist()
    ['camera', 'up']
    """
    chosen = as_scenario(scenario)
    if chosen.point_count > 1:
        raise ValueError("compare: the scenario has a sweep; remove it by with_({'sweep': {}})")
    all_seeds = as_seeds(seeds)
    asked = asked_of(metrics)
    check_subjects(asked, chosen)
    settings = labelled(vary)
    variants = {label: varied(chosen, own) for label, own in settings.items()}
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
    rows = _rows(results, asked)
    ps = [row["p"] for row in rows]
    for row, p in zip(rows, holm(ps) if correction == "holm" else ps, strict=True):
        row["p_holm"] = p
    names = ["metric", "unit", "subject", "label", "count", "mean", "ci95", "diff", "diff_ci95"]
    table = {name: [row[name] for row in rows] for name in [*names, "p", "p_holm"]}
    return Comparison(results, Table.from_columns(table), correction, settings)
