"""Claims of papers, the contest, and bounds of delays."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import anabranch
from anabranch.testing import small_scenario


def test_a_claim_has_the_verdict_of_record() -> None:
    recorded = Path(__file__).parents[2] / "crates/papers/tests/data/expected.csv"
    assert "S0-T1" in recorded.read_text()
    findings = anabranch.reproduce("S0-T1", seeds=1, cache=False, progress=False)
    assert findings.table["id"].tolist() == ["S0-T1"]
    assert findings.table["verdict"].tolist() == ["holds"]
    assert findings.document["schema"] == "anabranch-findings/1"
    assert "S0-T1" in findings._repr_html_()


def test_an_unknown_claim_is_named_with_the_nearest() -> None:
    with pytest.raises(anabranch.UnknownName) as caught:
        anabranch.reproduce("zhang-delay-bbrr")
    assert caught.value.suggestion == "zhang-delay-bbr"


def test_runs_of_claims_are_interrupted_within_a_second(tmp_path: Path) -> None:
    interrupted_at: list[float] = []

    def interrupt(_: float) -> None:
        if not interrupted_at:
            # Time of the processors: this machine may be busy.
            interrupted_at.append(time.process_time())
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        anabranch.reproduce("S0-F3", cache=tmp_path, progress=interrupt)
    assert time.process_time() - interrupted_at[0] < 1.0 * (os.cpu_count() or 1)


def test_rows_of_the_contest_are_judged_by_their_bars() -> None:
    contest = anabranch.contest(["1", "6b"], seeds=2, progress=False)
    table = contest.table
    assert table["row"].tolist() == ["1", "6b"] and list(contest.results) == ["1", "6b"]
    assert table["verdict"].tolist() == ["holds", "holds"]
    assert table["delivered_bar"].tolist() == [1.0, 0.877]
    assert table["overhead_bar"][0] == 0.08 and np.isnan(table["overhead_bar"][1])
    late = {"flows.0.deadline_ms": 31}
    hopeless = anabranch.contest(["1"], seeds=1, set=late, progress=False)
    assert hopeless.table["verdict"].tolist() == ["differs"]


def test_no_frame_is_faster_than_alone() -> None:
    delays = anabranch.frame_delay_bound(small_scenario(), seeds=2)
    frames = delays.frames
    assert not delays.has_company and set(frames["seed"]) == {1, 2}
    assert (frames["bound_ms"] >= frames["alone_ms"]).all()
    assert (frames["actual_ms"] >= frames["alone_ms"]).all()
    parts = frames["propagation_ms"] + frames["queues_ms"] + frames["sender_ms"]
    known = ~np.isnan(parts)
    assert known.any()
    np.testing.assert_allclose(parts[known], frames["actual_ms"][known], atol=1e-3)


def test_a_bound_needs_media() -> None:
    bulk = small_scenario().with_({"flows": [{"paths": ["only"], "kind": "bulk"}], "expect": {}})
    with pytest.raises(ValueError, match="no flow of the scenario carries media"):
        anabranch.frame_delay_bound(bulk)
