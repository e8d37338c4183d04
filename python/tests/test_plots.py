"""Plots: their data, lost frames, intervals, overlays, styles and colours."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anabranch
import numpy as np
import pytest
from anabranch import Comparison, Findings, MissingExtra, Result, Table, UnknownName
from anabranch._plot_parts import pareto
from anabranch._style import PALETTE, bar_look, line_look, mark_look
from anabranch.testing import small_scenario, two_path_scenario

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def outage() -> Result:
    """Return runs in which a path is out from 4 to 5 s, and another loses packets."""
    scenario = two_path_scenario().with_({"links.lte.loss": 0.2})
    return anabranch.run(scenario, seeds=2, trace=True, progress=False)


@pytest.fixture(scope="module")
def swept() -> Result:
    sweep = {"links.up.rate_mbps": [2, 1], "links.up.delay_ms": [20, 40]}
    return anabranch.run(small_scenario().with_({"sweep": sweep}), seeds=2, progress=False)


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return anabranch.compare(
        small_scenario(),
        vary={"controller": ["live-bbr", "fixed"], "links.up.rate_mbps": [2, 1]},
        metrics=["goodput", "utilisation"],
        seeds=3,
        trace=["frames"],
        progress=False,
    )


def test_a_distribution_has_lost_frames_at_the_right_edge(outage: Result) -> None:
    frames = outage.frames
    delays = frames["delay_ms"][frames["outcome"] == "complete"]
    lost = len(frames) - len(delays)
    assert lost > 0
    ax = outage.plot.cdf("frame_delay")
    curve, rest = ax.lines
    x, y = curve.get_data()
    assert y[-1] == pytest.approx(len(delays) / len(frames)) and y[-1] < 1
    middle = float(np.median(delays))
    below = np.count_nonzero(delays <= middle) / len(frames)
    assert y[np.searchsorted(x, middle, side="right") - 1] == pytest.approx(below)
    # They are later than everything that arrived.
    assert rest.get_xdata().tolist() == [ax.get_xlim()[1]] * 2 and x[-2] < ax.get_xlim()[1]
    assert rest.get_ydata().tolist() == [y[-1], 1.0]
    without = outage.plot.cdf("frame_delay", include_lost=False)
    assert len(without.lines) == 1 and without.lines[0].get_ydata()[-1] == 1.0


def test_distributions_of_packets_flows_and_groups(outage: Result, swept: Result) -> None:
    packets = outage.packets.where(direction="forward")
    sent = np.count_nonzero(packets["event"] != "sent")
    delivered = np.count_nonzero(packets["event"] == "delivered")
    ax = outage.plot.cdf("packet_delay")
    assert ax.lines[0].get_ydata()[-1] == pytest.approx(delivered / sent)
    assert ax.get_ylabel() == "share of packets"
    labels = [text.get_text() for text in swept.plot.cdf("goodput_bps").get_legend().get_texts()]
    assert labels[0] == "links.up.delay=20 ms, links.up.rate=2 Mbit/s"
    by_rate = swept.plot.cdf("frame_delay", by="links.up.rate_bps", include_lost=False)
    assert len(by_rate.lines) == 2
    by_flow = outage.plot.cdf("frame_delay", by=["seed", "scheduler"], include_lost=False)
    assert [text.get_text() for text in by_flow.get_legend().get_texts()] == ["seed=1", "seed=2"]
    with pytest.raises(UnknownName, match="goodput_bps"):
        swept.plot.cdf("goodput_bp")


def test_a_timeline_shows_every_frame_once(outage: Result) -> None:
    frames = outage.frames.where(seed=2)
    ax = outage.plot.timeline(seed=2)
    arrived, lost = ax.lines
    is_complete = frames["outcome"] == "complete"
    assert arrived.get_ydata().tolist() == frames["delay_ms"][is_complete].tolist()
    assert lost.get_xdata().tolist() == frames["captured_s"][~is_complete].tolist()
    with pytest.raises(ValueError, match="no rows of seed 9"):
        outage.plot.timeline(seed=9)
    with pytest.raises(ValueError, match="no rows of point 5"):
        outage.plot.timeline(point=5)


def test_series_shade_outages(outage: Result) -> None:
    ax = outage.plot.series("delivered_bps")
    rows = outage.path_series.where(seed=1, route="wifi")
    assert ax.lines[0].get_label() == "wifi"
    assert ax.lines[0].get_ydata() == pytest.approx(rows["delivered_bps"] / 1e6)
    spans = {
        patch.get_label(): patch.get_extents().transformed(ax.transData.inverted())
        for patch in ax.patches
    }
    out = rows["time_s"][rows["state"] == "out"]
    assert spans["out"].x0 == pytest.approx(out[0] - 0.1, abs=0.01)
    assert spans["out"].x1 == pytest.approx(out[-1], abs=0.01)
    assert not outage.plot.series("delivered_bps", outages=False).patches
    links = outage.plot.series("queued_bytes", table="link_series")
    assert {line.get_label() for line in links.lines} == {"back", "lte", "wifi"}
    assert links.get_ylabel() == "queued (kB)"
    untraced = anabranch.run(small_scenario(), seeds=1, progress=False)
    with pytest.raises(UnknownName, match='trace=."series".'):
        untraced.plot.series()


def test_a_heat_map_has_the_means_of_its_cells(swept: Result) -> None:
    ax = swept.plot.heatmap("links.up.rate_bps", "links.up.delay_ms", "goodput")
    grid = ax.images[0].get_array()
    slow = swept.runs.where(**{"links.up.rate_bps": 1e6, "links.up.delay_ms": 40.0})
    assert grid[1, 0] == pytest.approx(slow["goodput_bps"].mean() / 1e6)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["1", "2"]
    with pytest.raises(UnknownName, match="links.up.rate_bps"):
        swept.plot.heatmap("links.up.rate", "links.up.delay_ms")
    with pytest.raises(UnknownName, match="no metric is called"):
        swept.plot.heatmap("links.up.rate_bps", "links.up.delay_ms", "speed")


def test_bars_have_means_intervals_and_stars(compared: Comparison) -> None:
    ax = compared.plot.bars("goodput", paper={compared.labels[1]: 1.5})
    rows = compared.table.where(metric="goodput")
    heights = [patch.get_height() for patch in ax.patches]
    assert heights == pytest.approx(rows["mean"] / 1e6)
    ends = [part.get_segments()[0][:, 1] for part in ax.collections]
    assert [(b - a) / 2 for a, b in ends] == pytest.approx(rows["ci95"] / 1e6)
    stars = [text for text in ax.texts if text.get_text() == "*"]
    assert len(stars) == np.count_nonzero(rows["p_holm"] < 0.05) > 0
    diamonds = [line for line in ax.lines if line.get_marker() == "D"]
    assert [line.get_ydata()[0] for line in diamonds] == [1.5]
    ticks = compared.plot.bars("utilisation").get_xticklabels()
    assert [text.get_text() for text in ticks] == ["up"]
    with pytest.raises(UnknownName, match="loss was not compared"):
        compared.plot.bars("loss")
    with pytest.raises(UnknownName, match="no label"):
        compared.plot.bars("goodput", paper={"wrr": 1.0})


def test_comparisons_have_distributions_and_heat_maps(compared: Comparison) -> None:
    ax = compared.plot.cdf("frame_delay", include_lost=False)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == compared.labels
    ax = compared.plot.heatmap("links.up.rate_mbps", "controller")
    rows = compared.table.where(metric="goodput", label=compared.labels[3])
    assert ax.images[0].get_array()[1, 0] == pytest.approx(rows["mean"][0] / 1e6)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["live-bbr", "fixed"]
    with pytest.raises(UnknownName, match="was not varied"):
        compared.plot.heatmap("scheduler", "controller")


def test_a_frontier_has_a_point_for_each_label(compared: Comparison) -> None:
    ax = compared.plot.frontier()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("queue wait mean (ms)", "utilisation (%)")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == compared.labels
    links = compared.results[compared.labels[0]].links.where(link="up")
    x, y = ax.lines[0].get_data()
    assert x[0] == pytest.approx(links["queue_wait_mean_ms"].mean())
    assert y[0] == pytest.approx(100 * links["utilisation"].mean())
    with pytest.raises(ValueError, match="neither lower nor higher"):
        compared.plot.frontier(better=("low", "high"))  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="no flow or link"):
        compared.plot.frontier(subject="sideways")


def test_the_frontier_is_that_of_pareto() -> None:
    points = [(1.0, 5.0), (2.0, 4.0), (2.0, 9.0), (3.0, 9.0), (4.0, 12.0), (float("nan"), 20.0)]
    assert pareto(points, ("lower", "higher")) == [(1.0, 5.0), (2.0, 9.0), (4.0, 12.0)]
    assert pareto(points, ("lower", "lower")) == [(1.0, 5.0), (2.0, 4.0)]
    assert pareto(points, ("higher", "higher")) == [(4.0, 12.0)]


def test_claims_show_the_printed_numbers() -> None:
    def value(name: str, unit: str, paper: float | None) -> dict[str, object]:
        ours = {"median": 2e6, "min": 1e6, "max": 4e6}
        return {"name": name, "unit": unit, "paper_value": paper, "ours": ours}

    values = [value("a", "bits_per_second", 3e6), value("b", "number", 1.0)]
    values += [value("c", "bits_per_second", 5e6), value("d", "bits_per_second", None)]
    claim = {"id": "X", "verdict": "holds", "seed_count": 3, "values": values}
    ax = Findings({"findings": [claim]}).plot.bars()
    assert [text.get_text() for text in ax.get_xticklabels()] == ["X: a", "X: c"]
    assert ax.lines[-1].get_ydata().tolist() == [3.0, 5.0]
    assert ax.patches[0].get_height() == 2.0 and ax.get_ylabel() == "(Mbit/s)"
    shares = [{**value("e", "ratio", 0.01), "ours": {"median": 0.02, "min": 0.02, "max": 0.02}}]
    ax = Findings({"findings": [{**claim, "values": shares}]}).plot.bars(unit="ratio")
    assert ax.patches[0].get_height() == 2.0 and ax.get_ylabel() == "(%)"
    with pytest.raises(ValueError, match="in milliseconds"):
        Findings({"findings": [claim]}).plot.bars(unit="milliseconds")


def test_curves_of_others_are_drawn_in_black(outage: Result) -> None:
    curve = {"paper, Fig. 3": ([10.0, 2000.0], [0.1, 1.0])}
    ax = outage.plot.cdf("frame_delay", overlay=curve)
    line = next(line for line in ax.lines if line.get_label() == "paper, Fig. 3")
    assert (line.get_xdata().tolist(), line.get_color()) == ([10.0, 2000.0], "black")
    assert ax.get_xlim()[1] >= 2000.0
    assert len(outage.plot.series(overlay=curve).get_legend().get_texts()) >= 3


def test_styles_and_given_axes(outage: Result) -> None:
    assert outage.plot.timeline().figure.get_size_inches()[0] == 3.5
    assert outage.plot.timeline(style="page").figure.get_size_inches()[0] == 7.16
    _, axes = pyplot.subplots(2)
    assert outage.plot.timeline(ax=axes[0]) is axes[0]
    assert outage.plot.cdf(ax=axes[1]) is axes[1]
    before = dict(matplotlib.rcParams)
    outage.plot.series()
    assert dict(matplotlib.rcParams) == before
    with pytest.raises(ValueError, match="style: 'wide' is none of column, page"):
        outage.plot.timeline(style="wide")  # type: ignore[arg-type]


@pytest.mark.parametrize("style", ["column", "page"])
@pytest.mark.parametrize("has_axes", [False, True])
def test_legends_lie_below_the_data(
    outage: Result, swept: Result, compared: Comparison, style: str, has_axes: bool
) -> None:
    curve = {"a paper with a long name, Fig. 3": ([10.0, 2000.0], [0.1, 1.0])}

    def new() -> object:
        figure = pyplot.figure(figsize=(7, 5), layout="constrained")
        return figure.subplots(2, 2)[0, 0] if has_axes else None

    drawn = [
        outage.plot.timeline(overlay=curve, style=style, ax=new()),  # type: ignore[arg-type]
        outage.plot.cdf(overlay=curve, style=style, ax=new()),  # type: ignore[arg-type]
        outage.plot.series(style=style, ax=new()),  # type: ignore[arg-type]
        swept.plot.cdf("goodput_bps", style=style, ax=new()),  # type: ignore[arg-type]
        compared.plot.bars(style=style, ax=new()),  # type: ignore[arg-type]
        compared.plot.cdf(style=style, ax=new()),  # type: ignore[arg-type]
        compared.plot.frontier(style=style, ax=new()),  # type: ignore[arg-type]
    ]
    for ax in drawn:
        ax.set_title("a title")
        ax.figure.draw_without_rendering()
        box = ax.get_legend().get_window_extent()
        axis = ax.xaxis.get_tightbbox() or ax.bbox
        assert box.y1 <= axis.y0 + 1 and box.y1 <= ax.bbox.y0
        assert box.y0 >= 0 and ax.bbox.height > 0.4 * (2.3 if style == "column" else 3.0)
        if not has_axes:
            # All of it is in the picture, and the axes keep their height.
            assert box.x0 >= -1 and box.x1 <= ax.figure.bbox.x1 + 1
            assert ax.bbox.height / ax.figure.dpi > 1.4
        others = [each for each in ax.figure.axes if each is not ax]
        assert not any(box.overlaps(each.bbox) for each in others)


def test_an_empty_distribution_is_an_error(outage: Result) -> None:
    with pytest.raises(ValueError, match="no values of transfer_time_mean_ms"):
        outage.plot.cdf("transfer_time_mean_ms")


def test_looks_differ() -> None:
    for look, count in ((line_look, 24), (mark_look, 42), (bar_look, 36)):
        assert len({str(look(number)) for number in range(count)}) == count


#: Views without the cones of long, medium and short waves, on linear RGB: G. M. Machado et al.,
#: IEEE Transactions on Visualization and Computer Graphics 15(6), 2009, severity 1.
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}  # fmt: skip


def lab(colour: str, view: object) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return a colour in CIELAB (D65), as it is seen with a kind of colour blindness."""
    rgb = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.asarray(view) @ linear, 0, 1)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = np.cbrt(np.asarray(to_xyz) @ seen / [0.9505, 1.0, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("blindness", BLINDNESS)
def test_colours_differ_for_colour_blind_readers(blindness: str) -> None:
    seen = [lab(colour, BLINDNESS[blindness]) for colour in (*PALETTE, "#000000", "#FFFFFF")]
    apart = [float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2)]
    # A difference of 2.3 is just noticeable.
    assert min(apart) > 4 * 2.3


def test_matplotlib_is_optional(
    monkeypatch: pytest.MonkeyPatch, outage: Result, tmp_path: Path
) -> None:
    code = "import anabranch, sys; print('matplotlib' in sys.modules)"
    # Not beside the sources, which lack the native module.
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "False"
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtra, match=r"pip install 'anabranch\[plot\]'"):
        outage.plot.timeline()


def test_columns_from_flows_join_frames_by_point_seed_and_flow() -> None:
    frames = Table.from_columns(
        {
            "point": [0, 1, 1],
            "seed": [1, 1, 1],
            "flow": ["a", "a", "a"],
            "outcome": ["complete"] * 3,
            "delay_ms": [1.0, 2.0, 3.0],
        }
    )
    flows = Table.from_columns(
        {"point": [1, 0], "seed": [1, 1], "flow": ["a", "a"], "scheduler": ["wrr", "rr"]}
    )
    result = Result({"runs": flows, "flows": flows, "frames": frames})
    ax = result.plot.cdf("frame_delay", by="scheduler")
    assert [line.get_label() for line in ax.lines] == ["rr", "wrr"]
    assert ax.lines[1].get_xdata()[1:3].tolist() == [2.0, 3.0]
