"""Tables for other packages, saved results, comparisons."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

import anabranch
import numpy as np
import pytest
from anabranch import Result, Table
from anabranch._statistics import half_width, holm, paired_p, student_cdf, student_quantile
from anabranch.testing import small_scenario

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def result() -> Result:
    swept = small_scenario().with_({"sweep": {"links.up.rate_mbps": [1, 2]}})
    return anabranch.run(swept, seeds=2, trace=True, progress=False)


def test_other_packages_read_all_tables_alike(result: Result) -> None:
    for name in result.table_names:
        table = result.table(name)
        arrow, frame = pyarrow.table(table), table.to_pandas()
        assert arrow.column_names == polars.DataFrame(table).columns == list(frame.columns)
        assert arrow.num_rows == len(frame) == len(table)
        for column in table.names:
            own = table[column].tolist()
            read = arrow.column(column).to_pylist()
            assert read == [None if value != value else value for value in own], column


def test_names_are_categories_and_missing_numbers_nan(result: Result) -> None:
    frame = result.flows.to_pandas()
    assert str(frame["controller"].dtype) == "category"
    assert math.isnan(result.flows["transfer_time_mean_ms"][0])
    assert frame["transfer_time_mean_ms"].isna().all()


def test_no_copy_is_made_for_arrow(result: Result) -> None:
    column = result.packets.to_arrow().column("time_s").chunk(0).buffers()[1].address
    again = result.packets.to_arrow().column("time_s").chunk(0).buffers()[1].address
    assert column == again


def test_an_unknown_column_is_named(result: Result) -> None:
    with pytest.raises(anabranch.UnknownName, match="did you mean 'goodput_bps'") as caught:
        result.flows["goodput_bp"]
    assert caught.value.suggestion == "goodput_bps"
    with pytest.raises(anabranch.UnknownName, match="flows"):
        result.table("flow")


def test_a_saved_result_is_read_as_it_was(result: Result, tmp_path: Path) -> None:
    path = result.save(tmp_path / "x.parquet")
    again = Result.load(path)
    assert again.table_names == result.table_names and again.settings == result.settings
    for name in result.table_names:
        for column in result.table(name).names:
            np.testing.assert_array_equal(again.table(name)[column], result.table(name)[column])
    with pytest.raises(FileExistsError):
        result.save(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.parquet"]


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no result"):
        Result.load(tmp_path)
    import pyarrow.parquet as parquet

    parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "runs.parquet")
    with pytest.raises(ValueError, match="not written by anabranch"):
        Result.load(tmp_path)


def other_version(result: Result) -> Result:
    tables = {name: result.table(name) for name in result.table_names}
    runs = tables["runs"].to_dict()
    seeds = runs["seed"] + 100
    old: dict[str, Any] = {**runs, "version": ["0.0.9"] * len(seeds), "seed": seeds}
    tables["runs"] = Table.from_columns(old)
    return Result(tables, name=result.name, settings=result.settings)


def test_results_of_other_versions_and_the_same_runs_are_not_mixed(result: Result) -> None:
    old = other_version(result)
    with pytest.raises(anabranch.VersionError) as caught:
        anabranch.concat([result, old])
    assert caught.value.versions == sorted(["0.0.9", anabranch.__version__])
    assert len(anabranch.concat([result, old], mixed_versions=True).runs) == 8
    with pytest.raises(ValueError, match="twice"):
        anabranch.concat([result, result])
    assert len(anabranch.concat([result, result], duplicates=True).runs) == 8


def test_a_missing_package_names_its_extra(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def without(name: str, package: str | None = None) -> Any:
        if name.split(".")[0] in ("pandas", "pyarrow", "polars"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    for call, extra in [
        (result.flows.to_pandas, "pandas"),
        (result.flows.to_polars, "polars"),
        (result.flows.to_arrow, "arrow"),
    ]:
        with pytest.raises(anabranch.MissingExtra, match=rf"anabranch\[{extra}\]") as caught:
            call()
        assert caught.value.extra == extra


def test_a_comparison_is_paired_by_seed() -> None:
    compared = anabranch.compare(
        small_scenario(),
        vary={"links.up.rate_mbps": [2, 1], "scheduler": ["min-cost"]},
        metrics=["goodput", "utilisation", "frame_delay_p95_ms"],
        seeds=4,
        progress=False,
    )
    table = compared.table
    assert compared.labels == [
        "links.up.rate_mbps=2, scheduler=min-cost",
        "links.up.rate_mbps=1, scheduler=min-cost",
    ]
    goodput = table.where(metric="goodput")
    values = [compared.results[label].runs["goodput_bps"] for label in compared.labels]
    assert goodput["mean"].tolist() == [value.mean() for value in values]
    assert goodput["diff"][1] == pytest.approx((values[1] - values[0]).mean())
    assert math.isnan(goodput["diff"][0]) and goodput["p"][1] < 0.001
    assert goodput["p_holm"][1] >= goodput["p"][1]
    assert table.where(metric="utilisation")["subject"].tolist() == ["up", "up"]
    assert "±" in compared._repr_html_()


def test_comparisons_refuse_what_they_cannot_do() -> None:
    small = small_scenario()
    with pytest.raises(ValueError, match="no setting"):
        anabranch.compare(small, vary={})
    with pytest.raises(ValueError, match="list of values"):
        anabranch.compare(small, vary={"scheduler": "wrr"})
    with pytest.raises(ValueError, match="twice"):
        anabranch.compare(small, vary={"scheduler": ["wrr", "wrr"]})
    with pytest.raises(ValueError, match="sweep"):
        anabranch.compare(
            small.with_({"sweep": {"links.up.loss": [0, 0.1]}}), vary={"scheduler": ["wrr"]}
        )
    with pytest.raises(anabranch.UnknownName, match="goodput"):
        anabranch.compare(small, vary={"scheduler": ["wrr"]}, metrics=["godput"])


def test_students_distribution_is_that_of_tables() -> None:
    # Two-sided 95 %, as in crates/lab/src/compare/statistics.rs.
    for freedom, t in [(1, 12.706), (2, 4.303), (9, 2.262), (30, 2.042), (120, 1.980)]:
        assert student_quantile(0.975, freedom) == pytest.approx(t, abs=6e-4)
    assert student_cdf(0.0, 5) == 0.5 and student_cdf(-2.015, 5) == pytest.approx(0.05, abs=1e-4)
    # Mean 3, deviation sqrt(2.5), 4 degrees of freedom.
    assert half_width(np.array([1.0, 2, 3, 4, 5]), 0.95) == pytest.approx(1.9629, abs=1e-3)
    # scipy.stats.ttest_1samp([1, 2, 3, 4, 5], 0).pvalue
    assert paired_p(np.array([1.0, 2, 3, 4, 5])) == pytest.approx(0.013236, abs=1e-5)
    assert paired_p(np.zeros(3)) == 1.0 and math.isnan(paired_p(np.ones(1)))


def test_holm_corrects_in_the_order_of_p() -> None:
    corrected = holm([0.01, float("nan"), 0.04, 0.03])
    assert corrected[0] == pytest.approx(0.03)
    assert math.isnan(corrected[1])
    assert corrected[2] == corrected[3] == pytest.approx(0.06)


def test_pictures_of_results_have_no_markup_of_names(result: Result) -> None:
    assert "links.up.rate_bps" in result._repr_html_()
    html = Table.from_columns({"<b>": ["<script>"]})._repr_html_()
    assert "<script>" not in html and "&lt;script&gt;" in html


def two_flows() -> anabranch.Scenario:
    """Return two streams with the same controller, one of which stands for two flows, and noise."""
    return anabranch.Scenario(
        {
            "duration_s": 4,
            "links": {
                "bottleneck": {"rate_mbps": 4, "delay_ms": 20, "queue_ms": 200},
                "back": {"delay_ms": 20},
            },
            "routes": {"only": {"forward": ["bottleneck"], "reverse": ["back"]}},
            "flows": [
                {"name": "noise", "kind": "cbr", "rate_kbps": 100, "paths": ["only"]},
                {"name": "stream", "kind": "bulk", "paths": ["only"], "count": 2},
                {"name": "other", "kind": "bulk", "paths": ["only"], "controller": "cubic"},
                {"name": "same", "kind": "bulk", "paths": ["only"]},
            ],
        }
    ).with_({"flows.1.controller": "bbr3", "flows.3.controller": "bbr3"})


def test_a_comparison_names_flows_and_links_as_the_program_does() -> None:
    compared = anabranch.compare(
        two_flows(),
        vary={"controller": ["new-reno", "vegas"]},
        metrics=["throughput.other", "throughput", "goodput_bps.same", "utilisation.bottleneck"],
        seeds=2,
        progress=False,
    )
    first = compared.table.where(label="controller=new-reno")
    assert first["subject"].tolist() == ["other", None, "same", "bottleneck"]
    assert first["metric"].tolist() == ["throughput", "throughput", "goodput", "utilisation"]
    flows = compared.results["controller=vegas"].flows
    vegas = compared.table.where(label="controller=vegas")
    assert vegas["mean"][0] == flows.where(flow="other")["throughput_bps"].mean()
    # The first flow with control, and all with the same, have the compared one.
    controllers = dict(zip(flows["flow"].tolist(), flows["controller"].tolist(), strict=True))
    assert controllers == {
        "noise": "cbr",
        "stream-1": "vegas",
        "stream-2": "vegas",
        "other": "cubic",
        "same": "vegas",
    }
    for wrong, reason in [
        ("throughput.strem-1", "did you mean 'stream-1'"),
        ("utilisation.other", "known are back, bottleneck"),
        ("jain.other", "jain is of all flows together"),
    ]:
        with pytest.raises(anabranch.UnknownName, match=reason):
            anabranch.compare(two_flows(), vary={"controller": ["bbr3"]}, metrics=[wrong])
    with pytest.raises(anabranch.ScenarioError, match="did you mean .vegas"):
        anabranch.compare(two_flows(), vary={"controller": ["vega"]})


def test_a_bare_key_of_a_comparison_is_one_of_the_first_flow() -> None:
    compared = anabranch.compare(
        small_scenario(),
        vary={"padding": ["never", "always"], "duration_s": [2]},
        metrics=["padding.camera"],
        seeds=2,
        progress=False,
    )
    assert compared.labels == ["padding=never, duration_s=2", "padding=always, duration_s=2"]
    assert compared.table["mean"][0] == 0 < compared.table["mean"][1]
    small = small_scenario().with_({"flows.0.controller": "live-bbr:cycle=bbr"})
    kept = anabranch.compare(small, vary={"controller": ["gcc"]}, seeds=1, progress=False)
    assert kept.results["controller=gcc"].flows["controller"].tolist() == ["gcc"]


class _Paced(anabranch.Controller):
    def __init__(self, mbps: float = 1.0) -> None:
        self.mbps, self._hidden = mbps, object()

    def start(self, config: anabranch.ControllerConfig) -> anabranch.Control:
        return anabranch.Control(pacing_bps=1e6 * self.mbps, target_bps=1e6 * self.mbps)

    def on_feedback(self, now_s: float, feedback: anabranch.Feedback) -> None:
        """Keep the rate."""


def test_instances_of_algorithms_have_labels() -> None:
    compared = anabranch.compare(
        small_scenario(),
        vary={"controller": [_Paced, _Paced(0.5), _Paced(2.0)], "links.up.rate_mbps": [2]},
        metrics=["goodput"],
        seeds=1,
        progress=False,
    )
    assert [label.split(", ")[0] for label in compared.labels] == [
        "controller=_Paced",
        "controller=_Paced(mbps=0.5)",
        "controller=_Paced(mbps=2.0)",
    ]
    ax = compared.plot.heatmap("links.up.rate_mbps", "controller")
    ticks = [text.get_text() for text in ax.get_yticklabels()]
    assert ticks == ["_Paced", "_Paced(mbps=0.5)", "_Paced(mbps=2.0)"]
    with pytest.raises(ValueError, match="twice; give instances a `name`"):
        anabranch.compare(small_scenario(), vary={"controller": [_Paced(2.0), _Paced(2.0)]})
