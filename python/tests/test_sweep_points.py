"""Sweeps over settings that go together, and over lists of points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anabranch
import numpy as np
import pytest
from anabranch import Sweep, SweepResult, Table
from anabranch.testing import small_scenario

pytest.importorskip("pyarrow", reason="sweeps need pyarrow: pip install 'anabranch[arrow]'")

SETTINGS: dict[str, list[Any]] = {
    "links.up.rate_mbps": [1, 2],
    "flows.0.controller": ["gcc", "live-bbr"],
    "links.up.delay_ms": [20, 40],
}
#: The rate and the delay go together, and both are crossed with the controller.
PAIRS = ["links.up.rate_mbps", "links.up.delay_ms"]


def tiny() -> anabranch.Scenario:
    """Return a scenario of 2 s."""
    return small_scenario().with_({"duration_s": 2, "expect": {}})


def hashes(result: SweepResult) -> list[str]:
    """Return the hashes of all runs."""
    found: list[str] = result.to_pandas("runs")["trace_hash"].tolist()
    return found


def test_settings_that_go_together() -> None:
    sweep = Sweep(tiny(), SETTINGS, zip=PAIRS, seeds=2)
    assert sweep.point_count == 4 and "2 x 2 points" in repr(sweep)
    assert [list(sweep.settings_of(point).values()) for point in range(4)] == [
        [1, 20, "gcc"],
        [1, 20, "live-bbr"],
        [2, 40, "gcc"],
        [2, 40, "live-bbr"],
    ]
    lists = [PAIRS[:1], ["links.up.delay_ms", "flows.0.controller"]]
    assert Sweep(tiny(), SETTINGS, zip=lists).settings_of(2) == {
        "links.up.rate_mbps": 2,
        "flows.0.controller": "gcc",
        "links.up.delay_ms": 20,
    }


def test_rows_are_those_of_the_same_points_one_by_one(tmp_path: Path) -> None:
    sweep = Sweep(tiny(), SETTINGS, zip=PAIRS, seeds=2)
    made = sweep.run(tmp_path / "zipped", part_points=3)
    points = [sweep.settings_of(point) for point in range(4)]
    listed = Sweep(tiny(), points=points, seeds=2).run(tmp_path / "listed", part_points=1)
    single = [anabranch.run(tiny().with_(point), seeds=2, progress=False) for point in points]
    wanted = [text for result in single for text in result.runs["trace_hash"].tolist()]
    assert hashes(made) == hashes(listed) == wanted
    assert made.settings == listed.settings
    for name in ("links.up.rate_bps", "links.up.delay_ms"):
        assert made.points[name].tolist() == listed.points[name].tolist()
    assert made.points["links.up.rate_bps"].tolist() == [1e6, 1e6, 2e6, 2e6]


def test_points_of_data_frames(tmp_path: Path) -> None:
    nan = float("nan")
    columns: dict[str, list[Any]] = {
        "links.up.rate_mbps": [1.0, nan, 2.0],
        "flows.0.controller": ["gcc", "live-bbr", None],
    }
    frames: list[Any] = [Table.from_columns(columns)]
    frames.append(pytest.importorskip("pandas").DataFrame(columns))
    polars = pytest.importorskip("polars")
    frames.append(
        polars.DataFrame({k: [None if v != v else v for v in c] for k, c in columns.items()})
    )
    rows: list[dict[str, Any]] = [
        {"links.up.rate_mbps": 1.0, "flows.0.controller": "gcc"},
        {"flows.0.controller": "live-bbr"},
        {"links.up.rate_mbps": 2.0},
    ]
    made = Sweep(tiny(), points=rows, seeds=1).run(tmp_path / "dictionaries")
    assert made.points["links.up.rate_bps"][[0, 2]].tolist() == [1e6, 2e6]
    assert np.isnan(made.points["links.up.rate_bps"][1])
    assert made.points["flows.0.controller"].tolist() == ["gcc", "live-bbr", None]
    for number, frame in enumerate(frames):
        sweep = Sweep(tiny(), points=frame, seeds=1)
        assert [sweep.settings_of(point) for point in range(3)] == rows
        assert hashes(sweep.run(tmp_path / str(number))) == hashes(made)


def test_a_sweep_of_points_goes_on_and_has_failed_points_as_rows(tmp_path: Path) -> None:
    points: list[dict[str, Any]] = [
        {"links.up.rate_mbps": 1},
        {"links.up.loss": float("nan")},
        {"links.up.loss": 0.1, "links.up.rate": "2 Mbit/s"},
        {"links.up.rate_mbps": -1},
    ]
    with pytest.raises(ValueError, match="two keys set"):
        Sweep(tiny(), points=points)
    points[2] = {"links.up.loss": 0.1, "links.up.rate_mbps": 2}
    sweep = Sweep(tiny(), points=points, seeds=2)
    whole = sweep.run(tmp_path / "whole", part_points=1)
    assert whole.failed["point"].tolist() == [1, 1, 3, 3] and not whole.is_partial
    sweep.run(tmp_path / "cut", part_points=1)
    (tmp_path / "cut/runs/part-00002.parquet").unlink()
    seconds: list[float] = []
    again = sweep.run(tmp_path / "cut", progress=seconds.append)
    assert sum(seconds) == 4.0
    columns = ["point", "links.up.rate_bps", "links.up.loss", "seed", "error", "trace_hash"]
    frames = [each.to_pandas("runs", columns) for each in (whole, again)]
    assert frames[0].equals(frames[1])


def test_other_points_are_another_sweep(tmp_path: Path) -> None:
    points = [{"links.up.rate_mbps": 1}, {"links.up.rate_mbps": 2}]
    Sweep(tiny(), points=points, seeds=1).run(tmp_path)
    with pytest.raises(FileExistsError, match="settings differ"):
        Sweep(tiny(), points=points[::-1], seeds=1).run(tmp_path)
    # The same values, of which others go together.
    settings = {**SETTINGS, "links.up.loss": [0, 0.1]}
    Sweep(tiny(), settings, zip=[PAIRS], seeds=1).run(tmp_path / "zipped")
    with pytest.raises(FileExistsError, match="groups, columns differ"):
        others = ["links.up.rate_mbps", "links.up.loss"]
        Sweep(tiny(), settings, zip=[others], seeds=1).run(tmp_path / "zipped")


def test_folders_of_results_and_of_sweeps_are_told_apart(tmp_path: Path) -> None:
    Sweep(tiny(), points=[{"links.up.loss": 0.1}], seeds=1).run(tmp_path / "sweep")
    anabranch.run(tiny(), seeds=1, progress=False).save(tmp_path / "result.parquet")
    with pytest.raises(ValueError, match="holds no result of anabranch"):
        anabranch.Result.load(tmp_path / "sweep")
    with pytest.raises(FileNotFoundError, match="holds no sweep"):
        SweepResult.load(tmp_path / "result.parquet")


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"settings": SETTINGS, "zip": ["links.up.rate"]}, ValueError, "is no key of the settings"),
        ({"settings": SETTINGS, "zip": [PAIRS, PAIRS]}, ValueError, "is there twice"),
        (
            {"settings": {**SETTINGS, "links.up.loss": [0]}, "zip": [PAIRS[0], "links.up.loss"]},
            ValueError,
            "'links.up.rate_mbps' has 2 values, and 'links.up.loss' has 1",
        ),
        ({"settings": SETTINGS, "points": [{"links.up.loss": 0}]}, ValueError, "has all its"),
        ({"points": []}, ValueError, "at least one point"),
        ({"points": [{}]}, ValueError, "at least one point"),
        ({"points": [{"links.up.loss": 0.1}] * 2}, ValueError, "given twice"),
        ({"points": [{"links.up.loss": 0.1}, 5]}, TypeError, "a dictionary for each point"),
        ({"points": "links.up.loss"}, TypeError, "dictionaries or a data frame"),
        ({"points": {"links.up.loss": [0.1]}}, TypeError, "dictionaries or a data frame"),
        ({"points": [{"links.wfi.loss": 0.1}]}, anabranch.ScenarioError, "links.wfi"),
        ({"points": [{"links.up.loss": float("nan")}]}, anabranch.ScenarioError, "loss"),
        ({"points": [{"links.up.rate_bps": -1}]}, anabranch.ScenarioError, "not a data rate"),
        ({"points": [{"links.up.loss": 0.1}], "seeds": 0}, ValueError, "seeds"),
    ],
)
def test_bad_points(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Sweep(tiny(), **options)
