"""Claims of papers, tested in the laboratory."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _native
from ._progress import Bar, Progress
from ._run import ScenarioLike, Seeds, as_scenario, as_seeds, as_threads
from ._table import Table, html_table

if TYPE_CHECKING:
    from ._plot import FindingsPlots


class Findings:
    """Verdicts on claims of papers.

    `table` has a row for each claim: `id`, `paper`, `figure`, `claim`, `verdict` (holds, differs or
    cannot-be-known), `seed_count`, `paper_value` and `ours` (medians, in the claim's own unit) and
    `why`. `findings` are the same and more as dictionaries, in the form of
    `anabranch-lab reproduce --format json`.

    >>> import anabranch
    >>> anabranch.Findings({"findings": []})
    <Findings: 0 claims, 0 hold>
    """

    __slots__ = ("document", "findings", "table")

    #: The whole document, in the form of the program's JSON.
    document: dict[str, Any]
    #: A dictionary for each claim.
    findings: list[dict[str, Any]]
    #: A row for each claim.
    table: Table

    def __init__(self, document: dict[str, Any]) -> None:
        self.document, self.findings = document, document["findings"]
        nan = float("nan")
        texts = ("id", "paper", "figure", "claim", "verdict", "why")
        columns: dict[str, Any] = {name: [f.get(name) for f in self.findings] for name in texts}
        columns["seed_count"] = [int(f["seed_count"]) for f in self.findings]
        values = [f.get("paper_value") for f in self.findings]
        columns["paper_value"] = [nan if value is None else float(value) for value in values]
        ours = [f.get("ours") for f in self.findings]
        columns["ours"] = [nan if value is None else float(value["median"]) for value in ours]
        self.table = Table.from_columns(columns)

    @property
    def plot(self) -> FindingsPlots:
        """Plots on matplotlib axes: `bars`, the papers' printed numbers beside ours.

        >>> import anabranch
        >>> anabranch.Findings({"findings": []}).plot.bars()
        Traceback (most recent call last):
        ...
        ValueError: none of these claims prints a number that was measured
        """
        from ._plot import FindingsPlots

        return FindingsPlots(self)

    def __repr__(self) -> str:
        holds = sum(finding["verdict"] == "holds" for finding in self.findings)
        return f"<Findings: {len(self.findings)} claims, {holds} hold>"

    def _repr_html_(self) -> str:
        names = ["id", "figure", "claim", "verdict", "paper_value", "ours", "why"]
        rows = [[self.table[name][at] for name in names] for at in range(len(self.table))]
        return html_table(names, rows, "claims of papers, medians over seeds")


def reproduce(
    what: str | Sequence[str],
    *,
    seeds: int = 10,
    swap: str | None = None,
    swap_scheduler: str | None = None,
    threads: int = 0,
    cache: str | os.PathLike[str] | bool = True,
    progress: Progress = "auto",
) -> Findings:
    """Test claims of papers in the simulator, as `anabranch-lab reproduce`.

    `what`: a paper, a claim or the beginning of claims, or several, see `anabranch.claims()`.
    `seeds`: the most seeds that are used. `swap`, `swap_scheduler`: another algorithm in the place
    of the claim's subject, as a negative control. `cache`: a folder for finished runs, True for
    that of the program, False for none.

    An interrupt (Ctrl-C) is raised within about a simulated second; finished runs stay in the
    cache.
    Raises `UnknownName` for a claim that does not exist, `ValueError` for none, and `RunError`.

    >>> import anabranch
    >>> anabranch.reproduce("S0-F11", seeds=1, cache=False).table["verdict"].tolist()
    ['holds']
    """
    chosen = [what] if isinstance(what, str) else list(what)
    if not chosen:
        raise ValueError("what: at least one claim is needed")
    count = len(as_seeds(seeds))
    folder = None if cache is False else "" if cache is True else os.fspath(cache)
    # Only a bar needs the total.
    total_s = 0.0 if callable(progress) else _native.study_seconds(chosen) * count
    bar = Bar(progress, total_s)
    try:
        text = _native.reproduce(
            chosen, count, swap, swap_scheduler, as_threads(threads), folder, bar.call
        )
    finally:
        bar.close()
    return Findings(json.loads(text))


class FrameDelays:
    """Delays of frames beside their lower bounds.

    `frames` has a row for each frame: `seed`, `flow`, `captured_s`, and in ms beyond the fastest
    path's propagation `actual_ms`, `bound_ms` (as a fluid behind all frames before it), `alone_ms`
    (as if there were no other) and the parts `propagation_ms`, `queues_ms` and `sender_ms`.
    `has_company`: other flows share the flow's links, and the bounds ignore them.

    >>> import anabranch
    >>> delays = anabranch.frame_delay_bound(anabranch.testing.small_scenario(), seeds=1)
    >>> bool((delays.frames["actual_ms"] >= delays.frames["alone_ms"]).all())
    True
    """

    __slots__ = ("frames", "has_company")

    #: A row for each frame.
    frames: Table
    #: Whether other flows share the links.
    has_company: bool

    def __init__(self, frames: Table, has_company: bool) -> None:
        self.frames, self.has_company = frames, has_company

    def __repr__(self) -> str:
        return f"<FrameDelays of {len(self.frames)} frames>"


def frame_delay_bound(scenario: ScenarioLike, seeds: Seeds = 1, *, threads: int = 0) -> FrameDelays:
    """Run a scenario, and return its frames' delays beside lower bounds.

    The frames are those of the flow of media with the most paths, at the first point of a sweep.
    Raises `ScenarioError`, `RunError`, and `ValueError` if no flow carries media.

    >>> import anabranch
    >>> anabranch.frame_delay_bound(anabranch.testing.small_scenario(), seeds=1).has_company
    False
    """
    chosen = as_scenario(scenario)
    table, has_company = _native.frame_delays(chosen._made, as_seeds(seeds), as_threads(threads))
    return FrameDelays(Table(table), has_company)
