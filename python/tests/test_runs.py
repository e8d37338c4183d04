"""Runs: hashes, seeds, tables, interrupts."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import anabranch
import numpy as np
import pytest
from anabranch import Scenario
from anabranch.testing import small_scenario, two_path_scenario

ROOT = Path(__file__).parents[2]
#: Hashes with which the program's own tests compare runs: scenario, seed, hash.
OF_RECORD = [
    line.split() for line in (ROOT / "crates/lab/tests/hashes.txt").read_text().splitlines()
]


@pytest.mark.parametrize(("scenario", "seed", "recorded"), OF_RECORD)
def test_runs_have_the_trace_hashes_of_the_program(scenario: str, seed: str, recorded: str) -> None:
    loaded = Scenario.load(ROOT / "scenarios" / scenario)
    if loaded.point_count > 1:
        loaded = loaded.with_({"sweep": {}})
    result = anabranch.run(loaded, seeds=[int(seed)], progress=False)
    assert result.runs["trace_hash"].tolist() == [recorded]


def test_traces_and_threads_change_no_hash() -> None:
    plain = anabranch.run(two_path_scenario(), seeds=3, trace=(), threads=1, progress=False)
    traced = anabranch.run(two_path_scenario(), seeds=3, trace=True, threads=3, progress=False)
    assert plain.runs["trace_hash"].tolist() == traced.runs["trace_hash"].tolist()
    assert traced.table_names == list(dict.fromkeys(anabranch.columns()["table"].tolist()))


@pytest.mark.parametrize("seeds", [0, -1, [], [1, 1], [-1], [2**64]])
def test_seeds_that_are_none_or_twice_are_refused(seeds: object) -> None:
    with pytest.raises(ValueError, match="seed"):
        anabranch.run(small_scenario(), seeds=seeds)  # type: ignore[arg-type]


@pytest.mark.parametrize("seeds", [1.5, "10", True, [1.0], ["1"]])
def test_seeds_that_are_no_numbers_are_refused(seeds: object) -> None:
    with pytest.raises(TypeError, match="seeds"):
        anabranch.run(small_scenario(), seeds=seeds)  # type: ignore[arg-type]


def test_an_unknown_trace_is_named() -> None:
    with pytest.raises(anabranch.UnknownName) as caught:
        anabranch.run(small_scenario(), seeds=1, trace="frame")
    assert caught.value.suggestion == "frames" and "packets" in caught.value.known


def test_columns_are_those_of_the_documentation() -> None:
    result = anabranch.run(small_scenario(), seeds=1, trace=True, progress=False)
    documented = anabranch.columns()
    for name in result.table_names:
        own = documented.where(table=name)["column"].tolist()
        assert result.table(name).names == own, name
    assert all(documented["meaning"]), "every column has a meaning"
    endings = {"ms": "_ms", "s": "_s", "bit/s": "_bps", "bytes": "bytes", "": ""}
    for column, unit in zip(documented["column"], documented["unit"], strict=True):
        assert column.endswith(endings[unit]) or column == "bytes_in_flight", (column, unit)


def test_values_agree_between_tables_and_traces() -> None:
    result = anabranch.run(small_scenario(), seeds=2, trace=True, progress=False)
    for row, seed in enumerate(result.runs["seed"]):
        packets = result.packets.where(seed=seed)
        for event in ("sent", "delivered", "dropped"):
            count = int(np.sum(packets["event"] == event))
            assert result.runs[f"packets_{event}"][row] == count
        frames = result.frames.where(seed=seed, outcome="complete")
        assert result.flows["frames_complete"][row] == len(frames)
        measured = result.flows["frame_delay_max_ms"][row]
        assert measured == pytest.approx(frames["delay_ms"].max(), rel=1e-6)


def test_progress_adds_up_to_the_simulated_time() -> None:
    told: list[float] = []
    scenario = small_scenario()
    anabranch.run(scenario, seeds=4, progress=told.append)
    assert sum(told) == pytest.approx(4 * scenario.duration_s)


def test_an_interrupt_keeps_finished_runs_and_ends_within_a_second() -> None:
    simulated_s: list[float] = []
    interrupted_at: list[float] = []

    def interrupt(more_s: float) -> None:
        simulated_s.append(more_s)
        if sum(simulated_s) > 6.0 and not interrupted_at:
            # Time of the processor: this machine may be busy.
            interrupted_at.append(time.process_time())
            os.kill(os.getpid(), signal.SIGINT)

    # The first run is short, the others would take minutes.
    swept = small_scenario().with_({"sweep": {"duration": ["5 s", "100 h"]}})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = anabranch.run(swept, seeds=1, threads=1, progress=interrupt)
    took = time.process_time() - interrupted_at[0]
    assert result.is_partial and result.finished_count == 1 and result.asked_count == 2
    assert result.flows["point"].tolist() == [0]
    assert [str(warning.message) for warning in caught] == ["interrupted: 1 of 2 runs are finished"]
    assert took < 1.0


def test_an_interrupt_without_a_finished_run_is_raised() -> None:
    def interrupt(_: float) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        anabranch.run(small_scenario().with_({"duration": "100 h"}), seeds=1, progress=interrupt)


def test_an_exception_of_the_progress_function_is_raised() -> None:
    def refuse(_: float) -> None:
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        anabranch.run(small_scenario().with_({"duration": "100 h"}), seeds=1, progress=refuse)


def test_other_threads_of_python_go_on_during_a_run() -> None:
    counted = 0
    is_over = threading.Event()

    def count() -> None:
        nonlocal counted
        while not is_over.is_set():
            counted += 1
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    began_at = time.monotonic()
    anabranch.run(small_scenario().with_({"duration_s": 600}), seeds=2, trace=(), progress=False)
    took = time.monotonic() - began_at
    is_over.set()
    counter.join()
    # A held lock would leave the thread one step.
    assert counted > 10 * took


def test_a_partial_result_and_tables_are_pickled() -> None:
    result = anabranch.run(small_scenario(), seeds=1, progress=False)
    table = pickle.loads(pickle.dumps(result.frames))
    assert table["delay_ms"].tolist() == result.frames["delay_ms"].tolist()
    assert table["outcome"].tolist() == result.frames["outcome"].tolist()


def test_import_loads_only_numpy_and_no_slow_module(tmp_path: Path) -> None:
    code = """
        import sys
        before = set(sys.modules)
        import anabranch
        names = {name.partition(".")[0] for name in set(sys.modules) - before}
        print(*names - sys.stdlib_module_names)
        print(*names & {"asyncio", "http", "multiprocessing", "ssl", "unittest"})
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    # Not beside the sources, which lack the native module.
    lines = subprocess.check_output(command, cwd=tmp_path, text=True).splitlines()
    assert [sorted(line.split()) for line in lines] == [["anabranch", "numpy"], []]


#: The program of the laboratory, a part of `anabranch` or apart.
PROGRAMS = [ROOT / "target/debug" / name for name in ("anabranch-lab", "anabranch")]
PROGRAM = next((path for path in PROGRAMS if path.exists()), PROGRAMS[0])
#: Every fifth scenario, without bounds of its longer run.
SHORT = {"duration": "2 s", "expect": {}, "statistics": {}, "sweep": {}}
FILES = sorted((ROOT / "scenarios").glob("**/*.toml"))[::5]


def test_there_are_twenty_scenarios() -> None:
    assert len(FILES) >= 20


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built: cargo build")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_runs_have_the_same_hash_as_in_the_program(file: Path) -> None:
    seeds = range(3, 5)
    own = anabranch.run(Scenario.load(file).with_(SHORT), seeds=seeds, progress=False)
    settings = ["duration=2 s", "expect={}", "statistics={}", "sweep={}"]
    options = [word for setting in settings for word in ("--set", setting)]
    seeds_wanted = ["--seeds", "2", "--first-seed", "3", "--format", "json"]
    command = [str(PROGRAM), "run", str(file), *options, *seeds_wanted]
    output = subprocess.run(command, capture_output=True, text=True, check=True)
    hashes = [run["trace_hash"] for run in json.loads(output.stdout)["runs"]]
    assert own.runs["trace_hash"].tolist() == hashes
