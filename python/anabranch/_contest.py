"""This transport beside SRT, RIST, SRTLA and noq, simulated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _native
from ._errors import UnknownName
from ._progress import Bar, Progress
from ._result import Result
from ._run import Seeds, as_seeds, run
from ._scenario import Scenario
from ._table import Table, html_table

_IN_TIME = ("frames-complete-on-time", "frames-decodable-on-time")


class Contest:
    """Cases in which other transports were measured, and this one's figures.

    `table` has a row for each case: `row`, `case`; shares over the seeds of frames in time
    (`delivered`, median, and `delivered_worst`) and of bytes on the wire above the payload
    (`overhead`, `overhead_worst`); the bars `delivered_bar` and `overhead_bar` (NaN: none);
    `verdict` (holds, differs, or too short: less than a minute); and the measured figures of `srt`,
    `rist`, `srtla` and `noq` as texts, both in percent. `results` are the runs by row.

    >>> import anabranch
    >>> contest = anabranch.contest(["1"], seeds=1, set={"duration_s": 5})
    >>> contest.table["verdict"].tolist()
    ['too short']
    """

    __slots__ = ("results", "table")

    #: A row for each case.
    table: Table
    #: Runs by row.
    results: dict[str, Result]

    def __init__(self, table: Table, results: dict[str, Result]) -> None:
        self.table, self.results = table, results

    def __repr__(self) -> str:
        holds = int(np.sum(self.table["verdict"] == "holds"))
        return f"<Contest of {len(self.table)} rows, {holds} hold>"

    def _repr_html_(self) -> str:
        rows = [[self.table[name][at] for name in self.table] for at in range(len(self.table))]
        return html_table(self.table.names, rows, "shares of frames in time, and overhead")


def _judged(result: Result, is_too_short: bool) -> dict[str, Any]:
    bars = result.expectations.where(seed=result.expectations["seed"][0])
    lower = {m: v for m, v in zip(bars["metric"], bars["min"], strict=True) if m in _IN_TIME}
    upper = bars.where(metric="overhead")["max"]
    counts_decodable = "frames-decodable-on-time" in lower
    column = f"frames_{'decodable' if counts_decodable else 'complete'}_on_time"
    delivered, overhead = result.runs[column], result.runs["overhead"]
    least = lower.get(_IN_TIME[0], lower.get(_IN_TIME[1], 0.0))
    most = float(upper[0]) if len(upper) else math.nan
    least = 0.0 if math.isnan(least) else float(least)
    holds = delivered.min() >= least and not overhead.max() > most
    return {
        "delivered": float(np.median(delivered)),
        "delivered_worst": float(delivered.min()),
        "delivered_bar": least,
        "overhead": float(np.median(overhead)),
        "overhead_worst": float(overhead.max()),
        "overhead_bar": most,
        "verdict": "too short" if is_too_short else "holds" if holds else "differs",
    }


def contest(
    rows: Sequence[str] = (),
    *,
    seeds: Seeds = 10,
    set: Mapping[str, Any] | None = None,
    threads: int = 0,
    progress: Progress = "auto",
) -> Contest:
    """Run the cases in which SRT, RIST, SRTLA and noq were measured, as `anabranch-lab contest`.

    `rows`: beginnings of their names ("4", "6a"), all without any. `set`: values in every row, as
    in `Scenario.with_`. A row holds if every seed meets its bar. Rows of less than a minute are not
    judged. Raises `UnknownName` for a row, `KeyboardInterrupt` after Ctrl-C, and what `run` raises.

    >>> import anabranch
    >>> anabranch.contest(["9"])
    Traceback (most recent call last):
    ...
    anabranch._errors.UnknownName: no row is called '9'; known are 1, 2, 3, 4, 5, 6a, 6b, 7, 8
    """
    entries, span_s = _native.contest_rows()
    known = [entry["row"] for entry in entries]
    for name in rows:
        if not any(row.startswith(name) for row in known):
            raise UnknownName(f"no row is called {name!r}; known are {', '.join(known)}", known)
    wanted = [
        entry
        for entry in entries
        if not rows or any(entry["row"].startswith(name) for name in rows)
    ]
    all_seeds = as_seeds(seeds)
    scenarios = [
        Scenario.from_toml(entry["scenario"], name=f"row-{entry['row']}").with_(set or {})
        for entry in wanted
    ]
    total_s = sum(scenario.duration_s for scenario in scenarios) * len(all_seeds)
    bar = Bar(progress, total_s)
    results: dict[str, Result] = {}
    judged = []
    try:
        for entry, scenario in zip(wanted, scenarios, strict=True):
            result = run(scenario, all_seeds, threads=threads, trace=(), progress=bar.call or False)
            if result.is_partial:
                raise KeyboardInterrupt
            results[entry["row"]] = result
            judged.append(_judged(result, scenario.duration_s < span_s))
    finally:
        bar.close()
    columns: dict[str, Any] = {name: [e[name] for e in wanted] for name in ("row", "case")}
    for name in judged[0]:
        columns[name] = [row[name] for row in judged]
    for name in ("srt", "rist", "srtla", "noq"):
        columns[name] = [entry[name] for entry in wanted]
    return Contest(Table.from_columns(columns), results)
