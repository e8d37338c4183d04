"""Files of `anabranch-lab run --output`: sweeps that a cluster has run without Python."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import anabranch
from anabranch import Result, Scenario, testing

ROOT = Path(__file__).parents[2]
#: The program of the laboratory.
PROGRAM = Path(os.environ.get("ANABRANCH_LAB", ROOT / "target/debug/anabranch-lab"))
needs_program = pytest.mark.skipif(
    not PROGRAM.exists(), reason="the program is not built: cargo build -p anabranch-lab-cli"
)

#: Read from a text, since a sweep's keys have the order of their text.
SWEPT = Scenario.from_toml(
    testing.small_scenario().with_({"duration": "2 s"}).to_toml()
    + """
    [sweep]
    "links.up.rate" = ["1 Mbit/s", "2 Mbit/s"]
    "links.up.loss" = [0.0, 0.1]
    "flows.0.controller" = ["live-bbr", "gcc"]
    """,
    name="small",
)


def _run(folder: Path, scenario: Scenario, *options: str) -> Path:
    """Run the program, and return the file that it has written."""
    (folder / "small.toml").write_text(scenario.to_toml(), encoding="utf-8")
    command = [str(PROGRAM), "run", "small.toml", "--seeds", "3", *options]
    output = folder / "all.jsonl"
    command += ["--output", output.name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output


def _assert_equal(one: Result, other: Result) -> None:
    assert (one.name, one.settings) == (other.name, other.settings)
    assert (one.asked_count, one.finished_count) == (other.asked_count, other.finished_count)
    for name in ["runs", "flows", "paths", "links", "phases", "reasons", "expectations"]:
        own, others = one.table(name), other.table(name)
        assert own.names == others.names
        for column in own.names:
            np.testing.assert_array_equal(own[column], others[column], err_msg=f"{name} {column}")


@needs_program
def test_a_file_has_the_tables_of_a_run(tmp_path: Path) -> None:
    loaded = Result.load(_run(tmp_path, SWEPT))
    _assert_equal(loaded, anabranch.run(SWEPT, seeds=3, trace=(), progress=False))
    assert len(loaded.runs) == 24 and not loaded.is_partial and len(loaded.failed) == 0
    assert loaded.runs["links.up.rate_bps"][-1] == 2e6
    saved = Result.load(loaded.save(tmp_path / "saved.parquet"))
    _assert_equal(saved, loaded)


@needs_program
def test_failed_runs_are_a_table_of_their_own(tmp_path: Path) -> None:
    # Python reads only possible points; the program makes rows of impossible ones.
    text = SWEPT.to_toml().replace('["1 Mbit/s", "2 Mbit/s"]', '["1 Mbit/s", "2 Mbytes"]')
    assert "Mbytes" in text
    (tmp_path / "small.toml").write_text(text, encoding="utf-8")
    command = [str(PROGRAM), "run", "small.toml", "--output", "all.jsonl", "--seeds", "3"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    loaded = Result.load(tmp_path / "all.jsonl")
    assert (len(loaded.runs), len(loaded.failed), loaded.asked_count) == (12, 12, 24)
    assert not loaded.is_partial
    assert "links.up.rate" in loaded.failed["error"][0]
    assert set(loaded.failed["point"]) == {4, 5, 6, 7}
    saved = Result.load(loaded.save(tmp_path / "saved.parquet"))
    assert saved.failed["error"].tolist() == loaded.failed["error"].tolist()
    joined = anabranch.concat([anabranch.run(SWEPT, seeds=[9], progress=False), loaded])
    assert (len(joined.runs), len(joined.failed)) == (20, 12)


@needs_program
def test_shards_join_to_the_whole(tmp_path: Path) -> None:
    parts = []
    for number in (3, 1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        parts.append(Result.load(_run(folder, SWEPT, "--shard", f"{number}/3")))
    joined = anabranch.concat(parts)
    whole = anabranch.run(SWEPT, seeds=3, progress=False)
    assert sorted(joined.runs["trace_hash"]) == sorted(whole.runs["trace_hash"])
    assert joined.asked_count == 24
    with pytest.raises(ValueError, match="is there twice"):
        anabranch.concat([*parts, parts[0]])


HEADER = {
    "schema": "anabranch-runs/1",
    "version": "0.1.0",
    "code": "0",
    "scenario": "small",
    "scenario_hash": "0",
    "point_count": 1,
    "first_seed": 1,
    "seed_count": 2,
    "shard": "1/1",
}
FAILED = {
    "run": 0,
    "point": 0,
    "settings": [],
    "seed": 1,
    "error": "no memory",
    "report": None,
    "expectations": [],
}


def test_damaged_files_are_refused_by_line(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    second = {**FAILED, "run": 1, "seed": 2}
    lines = [json.dumps(line) + "\n" for line in (HEADER, FAILED, second)]
    file.write_text("".join(lines), encoding="utf-8")
    result = Result.load(file)
    assert result.failed["seed"].tolist() == [1, 2] and len(result.runs) == 0
    assert result.finished_count == 2
    huge = json.dumps({**HEADER, "point_count": 2**64 - 1}) + "\n"
    for text, reason in [
        ("", "no header"),
        ("{}\n", "no header"),
        (lines[0].replace("runs/1", "runs/2"), "anabranch-runs/2"),
        (huge, "impossible numbers"),
        ("".join(lines[:2]), "rows.jsonl:3: the file ends before run 1"),
        ("".join(lines)[:-10], "rows.jsonl:3: "),
        (lines[0] + lines[2] + lines[1], "run 0 was expected, not run 1"),
        ("".join([*lines, lines[2]]), "more lines"),
    ]:
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=reason):
            Result.load(file)
