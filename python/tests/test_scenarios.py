"""Scenarios: their forms, changes and mistakes."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import anabranch
import numpy as np
import pytest
from anabranch import Scenario, ScenarioError
from anabranch.testing import small_scenario

ROOT = Path(__file__).parents[2]
KEYS: dict[str, Any] = {
    "duration_s": 5,
    "links": {"up": {"rate_mbps": 2, "delay_ms": 20, "loss_percent": 1}, "down": {}},
    "routes": {"only": {"forward": ["up"], "reverse": ["down"]}},
    "flows": [{"paths": ["only"]}],
}


def hashes(scenario: Scenario) -> list[str]:
    result = anabranch.run(scenario, seeds=2, trace=(), progress=False)
    return [str(text) for text in result.runs["trace_hash"]]


def test_a_dictionary_a_text_and_a_copy_are_the_same_scenario() -> None:
    scenario = Scenario(KEYS)
    text = scenario.to_toml()
    assert hashes(Scenario.from_toml(text)) == hashes(scenario)
    copied: Scenario = pickle.loads(pickle.dumps(scenario))
    assert copied == scenario and hashes(copied) == hashes(scenario)


@pytest.mark.parametrize("path", sorted((ROOT / "scenarios").glob("*/*.toml"))[::6])
def test_every_file_survives_being_written(path: Path) -> None:
    scenario = Scenario.load(path)
    again = Scenario.from_toml(scenario.to_toml(), base_dir=path.parent, name=path.stem)
    assert again.describe() == scenario.describe()
    assert again.points == scenario.points


@pytest.mark.parametrize(
    ("key", "value", "written"),
    [
        ("links.up.rate_bps", 2e6, "2000000 bit/s"),
        ("links.up.rate_kbps", 300, "300000 bit/s"),
        ("links.up.rate_mbps", np.float32(2.5), "2500000 bit/s"),
        ("links.up.rate", "2 Mbit/s", "2 Mbit/s"),
        ("links.up.delay_us", 1500, "1500 us"),
        ("links.up.queue_kb", 64, "64000 B"),
        ("links.up.queue_packets", np.int64(75), "75 packets"),
        ("links.up.loss_percent", 1.5, "1.5 %"),
    ],
)
def test_numbers_take_the_unit_of_their_key(key: str, value: Any, written: str) -> None:
    text = small_scenario().with_({key: value}).to_toml()
    assert f'"{written}"' in text


def test_a_change_is_a_copy() -> None:
    scenario = small_scenario()
    changed = scenario.with_({"links.up.rate_mbps": 1})
    assert scenario != changed and hashes(scenario) != hashes(changed)


@pytest.mark.parametrize(
    ("settings", "key", "suggestion"),
    [
        ({"links.up.rat": "1 Mbit/s"}, "links.up.rat", "rate"),
        ({"links.upp.rate": "1 Mbit/s"}, "links.upp", "up"),
        ({"flows.0.controller": "cubik"}, "flows[0].controller", "cubic"),
        ({"flows.0.scheduler": "min-cots"}, "flows[0].scheduler", "min-cost"),
        ({"links.up.rate_bps": float("nan")}, "links.up.rate", None),
        ({"links.up.rate_bps": -1.0}, "links.up.rate", None),
        ({"links.up.loss": float("nan")}, "links.up.loss", None),
        ({"duration_s": 0}, "duration", None),
    ],
)
def test_a_mistake_names_key_and_suggestion(
    settings: dict[str, Any], key: str, suggestion: str | None
) -> None:
    with pytest.raises(ScenarioError) as caught:
        small_scenario().with_(settings)
    error = caught.value
    assert (error.key, error.suggestion) == (key, suggestion), error
    assert error.line is None
    if suggestion is not None:
        assert suggestion in error.known and f'did you mean "{suggestion}"?' in str(error)


def test_a_mistake_in_a_file_has_its_line(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(small_scenario().to_toml().replace("delay", "dleay", 1))
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(file)
    line = caught.value.line
    assert line is not None and "dleay" in file.read_text().splitlines()[line - 1]
    assert caught.value.file == str(file) and caught.value.suggestion == "delay"
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (copied.line, copied.known) == (line, caught.value.known)


def test_what_is_no_toml_has_its_line() -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.from_toml('duration = "1 s"\nlinks = {')
    assert caught.value.line == 2


def test_files_are_found_beside_the_scenario(tmp_path: Path) -> None:
    trace = (ROOT / "scenarios/traces/walking.trace").read_text()
    (tmp_path / "walk.trace").write_text(trace)
    links = {"up": {"trace": "walk.trace", "queue_kb": 64}, "down": {}}
    scenario = Scenario({**KEYS, "links": links}, base_dir=tmp_path)
    scenario.check()
    (tmp_path / "walk.trace").unlink()
    with pytest.raises(ScenarioError, match="walk.trace"):
        scenario.check()


def test_swept_settings_are_numbers_with_their_unit() -> None:
    swept = small_scenario().with_(
        {
            "sweep": {
                "links.up.rate": ["1 Mbit/s", "2500 kbit/s"],
                "links.up.loss": ["1 %"],
                "flows.0.controller": ["fixed"],
            }
        }
    )
    result = anabranch.run(swept, seeds=1, trace=(), progress=False)
    assert sorted(result.settings) == [
        "flows.0.controller",
        "links.up.loss",
        "links.up.rate_bps",
    ]
    assert result.flows["links.up.rate_bps"].tolist() == [1e6, 2.5e6]
    assert result.flows["links.up.loss"].tolist() == [0.01, 0.01]
    assert result.flows["flows.0.controller"].tolist() == ["fixed", "fixed"]
    assert result.flows["point"].tolist() == [0, 1]


def test_a_drawing_shows_every_link_and_flow() -> None:
    html = anabranch.testing.two_path_scenario()._repr_html_()
    assert html.startswith("<svg") and html.endswith("</svg>")
    for name in ("camera", "wifi", "lte", "3 Mbit/s", "live-bbr"):
        assert name in html
