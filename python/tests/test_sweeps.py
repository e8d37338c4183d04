"""Sweeps on one machine: rows, folders, failures, interrupts."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import anabranch
import pytest
from anabranch import Scenario, Sweep, SweepResult, _sweep_grid, _sweep_part
from anabranch.testing import small_scenario

pytest.importorskip("pyarrow", reason="sweeps need pyarrow: pip install 'anabranch[arrow]'")

#: Settings of six points, one of them impossible.
SETTINGS: dict[str, list[Any]] = {
    "links.up.rate": ["1 Mbit/s", "2 Mbit/s", "-1 Mbit/s"],
    "flows.0.controller": ["gcc", "live-bbr"],
}


def tiny() -> Scenario:
    """Return a scenario of 2 s."""
    return small_scenario().with_({"duration_s": 2, "expect": {}})


def small_sweep() -> Sweep:
    """Return a sweep of 18 runs."""
    return Sweep(tiny(), SETTINGS, seeds=3)


def hash_of_rows(folder: Path) -> str:
    """Return a hash of all rows of all tables, in their order."""
    result, digest = SweepResult.load(folder), hashlib.sha256()
    for name in result.table_names:
        rows = result.dataset(name).to_table()
        digest.update(f"{name} {rows.schema.to_string()} {rows.to_pydict()}".encode())
    return digest.hexdigest()


def files_of(folder: Path) -> dict[str, bytes]:
    """Return all files with their bytes."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_rows_are_those_of_a_run_with_a_sweep(tmp_path: Path) -> None:
    settings: dict[str, list[Any]] = {
        "flows.0.controller": ["gcc", "live-bbr"],
        "links.up.rate_mbps": [1, 2],
    }
    made = Sweep(tiny(), settings, seeds=2, trace=["frames"]).run(tmp_path / "made", part_points=3)
    swept = anabranch.run(tiny().with_({"sweep": settings}), seeds=2, progress=False)
    assert made.table_names == swept.table_names and made.settings == swept.settings
    for name in swept.table_names:
        own = made.dataset(name).to_table()
        if name == "runs":
            own = own.drop_columns(["error"])
        assert own.to_pylist() == swept.table(name).to_arrow().to_pylist(), name
    loaded = made.result()
    assert loaded.runs["trace_hash"].tolist() == swept.runs["trace_hash"].tolist()
    assert [point["links.up.rate_bps"] for point in made.points.to_arrow().to_pylist()] == [
        *(1e6, 2e6, 1e6, 2e6)
    ]


def test_a_bad_setting_is_a_row_with_its_error(tmp_path: Path) -> None:
    made = small_sweep().run(tmp_path / "made", part_points=1)
    runs = made.to_pandas("runs")
    assert runs["point"].tolist() == [point for point in range(6) for _ in range(3)]
    assert runs["seed"].tolist() == [1, 2, 3] * 6
    assert runs["error"].isna().tolist() == [True] * 12 + [False] * 6
    assert runs["links.up.rate_bps"].isna().sum() == 6
    assert made.failed["point"].tolist() == [4, 4, 4, 5, 5, 5]
    assert all('"-1 Mbit/s" is not a data rate' in error for error in made.failed["error"])
    assert made.dataset("flows").count_rows() == 12 and not made.is_partial
    assert made.points["flows.0.controller"].tolist() == ["gcc", "live-bbr"] * 3


@pytest.mark.parametrize("part_points", [1, 4, 6, 100])
def test_rows_do_not_depend_on_threads_and_partitions(tmp_path: Path, part_points: int) -> None:
    small_sweep().run(tmp_path / "one", threads=1, part_points=2)
    small_sweep().run(tmp_path / "three", threads=3, part_points=part_points)
    assert hash_of_rows(tmp_path / "one") == hash_of_rows(tmp_path / "three")


class Failing(anabranch.Controller):
    """A controller that fails with odd seeds."""

    def start(self, config: anabranch.ControllerConfig) -> anabranch.Control:
        self.is_failing = config.seed % 2 == 1
        return anabranch.Control(pacing_bps=500_000, target_bps=500_000)

    def on_feedback(self, now_s: float, feedback: anabranch.Feedback) -> None:
        if self.is_failing and now_s > 0.5:
            raise LookupError("no such value")


def test_an_exception_of_an_algorithm_fails_its_run_alone(tmp_path: Path) -> None:
    sweep = Sweep(tiny(), {"flows.0.controller": ["gcc", Failing]}, seeds=[2, 4, 6, 1, 3, 5])
    made = sweep.run(tmp_path / "made")
    errors = made.to_pandas("runs")["error"]
    assert not made.is_partial and len(errors) == 12 and errors[:6].isna().all()
    # A run draws the seeds of its controllers from its own, so some of them fail.
    texts = [text for text in errors if isinstance(text, str)]
    assert texts and all("LookupError: no such value" in text for text in texts)
    count = made.dataset("flows").count_rows()
    assert count == 12 - len(texts)


def test_a_panic_is_a_row_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = anabranch.run

    def panic(scenario: Scenario, seeds: list[int], **options: Any) -> anabranch.Result:
        if 2 in seeds and scenario.describe()["links"][1]["rate_bps"] == 2_000_000:
            raise anabranch.RunError("the run with seed 2 panicked")
        return original(scenario, seeds, **options)

    monkeypatch.setattr(_sweep_part, "run", panic)
    made = Sweep(tiny(), {"links.up.rate_mbps": [1, 2]}, seeds=3).run(tmp_path / "made")
    assert made.failed["point"].tolist() == [1] and made.failed["seed"].tolist() == [2]
    assert made.to_pandas("flows")["seed"].tolist() == [1, 2, 3, 1, 3]
    again = Sweep(tiny(), {"links.up.rate_mbps": [1, 2]}, seeds=3)
    monkeypatch.undo()
    assert len(again.run(tmp_path / "made").failed) == 1
    assert len(again.run(tmp_path / "made", retry_failed=True).failed) == 0


def test_a_lack_of_memory_is_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> anabranch.Result:
        raise MemoryError

    monkeypatch.setattr(_sweep_part, "run", fail)
    with pytest.raises(MemoryError):
        small_sweep().run(tmp_path / "made")
    monkeypatch.undo()
    assert len(small_sweep().run(tmp_path / "made").failed) == 6


@pytest.mark.parametrize(
    "other",
    [
        Sweep(tiny(), SETTINGS, seeds=4),
        Sweep(tiny(), {**SETTINGS, "links.up.rate": ["1 Mbit/s"]}, seeds=3),
        Sweep(tiny(), SETTINGS, seeds=3, trace=["frames"]),
        Sweep(tiny().with_({"links.up.loss": 0.1}), SETTINGS, seeds=3),
    ],
)
def test_a_folder_of_another_sweep_is_refused(tmp_path: Path, other: Sweep) -> None:
    small_sweep().run(tmp_path)
    before = files_of(tmp_path)
    with pytest.raises(FileExistsError, match="holds another sweep: .* differ"):
        other.run(tmp_path)
    assert files_of(tmp_path) == before


def test_a_folder_of_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("dear")
    with pytest.raises(FileExistsError, match="holds no sweep, but other files"):
        small_sweep().run(tmp_path)
    assert files_of(tmp_path) == {"thesis.tex": b"dear"}
    anabranch.run(tiny(), seeds=1, progress=False).save(tmp_path / "x.parquet")
    with pytest.raises(FileExistsError):
        small_sweep().run(tmp_path / "x.parquet")


def test_a_changed_trace_file_makes_another_sweep(tmp_path: Path) -> None:
    (tmp_path / "up.trace").write_text("0\n4\n9\n")
    traced = Scenario.from_toml(tiny().to_toml(), base_dir=tmp_path)
    traced = traced.with_({"links.up": {"trace": "up.trace", "delay": "20 ms"}})
    Sweep(traced, {"links.up.loss": [0.0, 0.1]}, seeds=1).run(tmp_path / "made")
    (tmp_path / "up.trace").write_text("0\n5\n9\n")
    with pytest.raises(FileExistsError, match="files differ"):
        Sweep(traced, {"links.up.loss": [0.0, 0.1]}, seeds=1).run(tmp_path / "made")


def test_another_version_is_refused_with_both_named(tmp_path: Path) -> None:
    small_sweep().run(tmp_path / "made")
    file = tmp_path / "made/sweep.json"
    file.write_text(file.read_text().replace(f'"{anabranch.__version__}"', '"0.0.1"'))
    before = files_of(tmp_path)
    with pytest.raises(anabranch.VersionError) as caught:
        small_sweep().run(tmp_path / "made")
    assert caught.value.versions == ["0.0.1", anabranch.__version__]
    assert "0.0.1" in str(caught.value) and anabranch.__version__ in str(caught.value)
    assert files_of(tmp_path) == before


def test_a_worker_of_another_version_reads_nothing() -> None:
    with pytest.raises(anabranch.VersionError, match=r"0\.0\.1, and a worker has") as caught:
        _sweep_part.make_part("0.0.1", b"no pickle")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert copy.versions == ["0.0.1", anabranch.__version__] and str(copy) == str(caught.value)


@pytest.mark.parametrize(
    ("settings", "seeds", "error", "text"),
    [
        ({"links.wfi.rate": ["1 Mbit/s"]}, 3, anabranch.ScenarioError, "links.wfi"),
        ({"links.up.loss": [float("nan")]}, 3, anabranch.ScenarioError, "loss"),
        ({"links.up.rate_bps": [-1]}, 3, anabranch.ScenarioError, "not a data rate"),
        ({"links.up.loss": []}, 3, ValueError, "at least one value"),
        ({"links.up.loss": "1 %"}, 3, ValueError, "a list of values"),
        ({"links.up.loss": 0.1}, 3, ValueError, "a list of values"),
        ({"links.up.loss": [0.1, 0.1]}, 3, ValueError, "given twice"),
        ({"links.up.rate": ["1 Mbit/s"], "links.up.rate_mbps": [2]}, 3, ValueError, "two keys"),
        ({"links.up.loss": [0.1]}, 0, ValueError, "seeds"),
        ({"links.up.loss": [object()]}, 1, TypeError, "cannot hold object"),
    ],
)
def test_bad_input_is_a_clear_error(
    settings: dict[str, Any], seeds: int, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        Sweep(tiny(), settings, seeds=seeds)


def test_other_bad_input_writes_nothing(tmp_path: Path) -> None:
    for losses in ([0.1], [0, 0.1]):
        swept = tiny().with_({"sweep": {"links.up.loss": losses}})
        with pytest.raises(ValueError, match=r"has a \[sweep\]"):
            Sweep(swept, SETTINGS)
    with pytest.raises(anabranch.UnknownName):
        Sweep(tiny(), SETTINGS, trace=["frame"]).run(tmp_path / "made")
    with pytest.raises(TypeError, match="executor"):
        small_sweep().run(tmp_path / "other", executor=3)
    with pytest.raises(ValueError, match="part_points"):
        small_sweep().run(tmp_path / "made", part_points=0)
    assert not (tmp_path / "made").exists() and not (tmp_path / "other").exists()


def test_the_index_has_numbers_with_units_and_texts() -> None:
    settings: dict[str, list[Any]] = {
        "links.up.delay": ["5 ms", "1 s", "nonsense"],
        "links.up.queue": ["20 kB", "100 ms"],
        "links.up.loss": ["1 %", 0.02],
        "flows.0.controller": ["gcc", "gcx"],
    }
    grid = _sweep_grid.Grid(tiny(), _sweep_grid.crossed(settings, ()))
    first, last = grid.cells(0), grid.cells(len(grid) - 1)
    assert first["links.up.delay_ms"] == 5.0 and first["links.up.loss"] == 0.01
    assert first["flows.0.controller"] == "gcc" and last["flows.0.controller"] == "gcx"
    assert first["links.up.queue_bytes"] == 20_000.0 and "links.up.queue_ms" not in first
    assert last["links.up.queue_ms"] == 100.0 and last["links.up.delay_ms"] is None
    assert not grid.columns["flows.0.controller"] and grid.columns["links.up.queue_ms"]


def test_partitions_cover_all_points_once() -> None:
    for count, size in ((1, 1), (6, 4), (10_000, 17), (64, 64)):
        parts = range(_sweep_grid.parts(count, size))
        points = [point for number in parts for point in _sweep_grid.batches(count, size, number)]
        assert points == list(range(count))
    assert _sweep_grid.part_points(30.0, 10, 20) == 1
    assert _sweep_grid.part_points(1.0, 10_000, 1) == 200
    assert _sweep_grid.part_points(5.0, 10_000, 10) == 20
    assert _sweep_grid.part_points(2.0, 1_000, 1) == 100
    # Two points of 300 s in a task, and at least 200 s: three seconds of work are 15 tasks.
    assert _sweep_grid.part_points(30.0, 100, 10) == 2
    assert _sweep_grid.parts(1_000, _sweep_grid.part_points(3.0, 1_000, 1)) == 15


def test_missing_and_broken_partitions_are_made_again(tmp_path: Path) -> None:
    small_sweep().run(tmp_path / "whole", part_points=1)
    small_sweep().run(tmp_path / "made", part_points=1)
    (tmp_path / "made/runs/part-00001.parquet").unlink()
    (tmp_path / "made/flows/part-00002.parquet").write_bytes(b"")
    (tmp_path / "made/links/part-00003.parquet").unlink()
    (tmp_path / "made/runs/.part-00004.0.tmp").write_bytes(b"PAR1")
    kept = tmp_path / "made/runs/part-00000.parquet"
    made_at = kept.stat().st_mtime_ns
    seconds: list[float] = []
    small_sweep().run(tmp_path / "made", progress=seconds.append)
    assert sum(seconds) == 3 * 2.0 * 3 and kept.stat().st_mtime_ns == made_at
    assert hash_of_rows(tmp_path / "made") == hash_of_rows(tmp_path / "whole")
    assert not list((tmp_path / "made").rglob("*.tmp"))


#: A sweep in a process of its own, to be ended from outside: its folder is the argument.
ALONE = """
    import sys
    from anabranch import Sweep
    from anabranch.testing import small_scenario

    if __name__ == "__main__":
        scenario = small_scenario().with_({"duration_s": 10, "expect": {}})
        sweep = Sweep(scenario, {"links.up.rate_kbps": list(range(500, 2100, 25))}, seeds=2)
        made = sweep.run(sys.argv[1], threads=2, progress=False, part_points=1)
        print(made.is_partial, made.finished_count)
"""


def start_alone(folder: Path) -> subprocess.Popen[str]:
    """Start the sweep in a process, and return when it has made a few partitions."""
    command = [sys.executable, "-c", textwrap.dedent(ALONE), str(folder)]
    # Not beside the sources, which lack the native module.
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder.parent
    )
    until = time.monotonic() + 60
    while len(list((folder / "runs").glob("part-*.parquet"))) < 4:
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.01)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_ended_sweep_goes_on_with_equal_rows(tmp_path: Path, number: signal.Signals) -> None:
    process = start_alone(tmp_path / "ended")
    process.send_signal(number)
    sent_at = time.monotonic()
    output, errors = process.communicate(timeout=60)
    took = time.monotonic() - sent_at
    partial = SweepResult.load(tmp_path / "ended")
    assert partial.is_partial and 0 < partial.finished_count < partial.asked_count == 128
    if number == signal.SIGINT:
        assert output.split() == ["True", str(partial.finished_count)], errors
        assert "interrupted" in errors and took < 5.0
        assert not list((tmp_path / "ended").rglob("*.tmp"))
    for name in ("ended", "whole"):
        command = [sys.executable, "-c", textwrap.dedent(ALONE), str(tmp_path / name)]
        output = subprocess.check_output(command, text=True, cwd=tmp_path)
        assert output.split() == ["False", "128"]
    assert hash_of_rows(tmp_path / "ended") == hash_of_rows(tmp_path / "whole")


def test_an_interrupt_without_a_partition_is_raised(tmp_path: Path) -> None:
    endless = small_scenario().with_({"duration": "100 h"})
    sent_at: list[float] = []

    def interrupt() -> None:
        # Time of the processors: this machine may be busy.
        sent_at.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        threading.Timer(0.5, interrupt).start()
        Sweep(endless, {"links.up.loss": [0, 0.1]}, seeds=1).run(tmp_path / "made")
    assert time.process_time() - sent_at[0] < 1.0 * (os.cpu_count() or 1)


def spawned(workers: int) -> ProcessPoolExecutor:
    """Return processes that share nothing with this one."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=context)


def test_processes_make_equal_rows(tmp_path: Path) -> None:
    small_sweep().run(tmp_path / "here", threads=1, part_points=1)
    with spawned(2) as pool:
        small_sweep().run(tmp_path / "there", executor=pool, part_points=1)
    assert hash_of_rows(tmp_path / "here") == hash_of_rows(tmp_path / "there")


def test_workers_find_files_from_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("up.trace").write_text("0\n4\n9\n")
    traced = tiny().with_({"links.up": {"trace": "up.trace", "delay": "20 ms"}})
    Path("traced.toml").write_text(traced.to_toml())
    sweep = Sweep("traced.toml", {"links.up.loss": [0.0, 0.1]}, seeds=1)
    elsewhere = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, elsewhere, initializer=os.chdir, initargs=("/",)) as pool:
        made = sweep.run("made", executor=pool)
    assert made.finished_count == 2 and len(made.failed) == 0
    assert made.folder == tmp_path / "made"


def test_a_killed_process_ends_the_sweep_and_keeps_partitions(tmp_path: Path) -> None:
    sweep = Sweep(tiny(), {"links.up.rate_kbps": list(range(500, 1500, 25))}, seeds=2)

    def kill(_: float) -> None:
        for process in list(pool._processes.values())[:1]:
            process.kill()

    with spawned(2) as pool, pytest.raises(BrokenProcessPool):
        sweep.run(tmp_path / "killed", executor=pool, part_points=1, progress=kill)
    partial = SweepResult.load(tmp_path / "killed")
    assert partial.is_partial and partial.finished_count > 0
    with spawned(2) as pool:
        sweep.run(tmp_path / "killed", executor=pool)
    sweep.run(tmp_path / "whole", threads=1, part_points=3)
    assert hash_of_rows(tmp_path / "killed") == hash_of_rows(tmp_path / "whole")


def test_a_worker_that_does_not_see_the_folder_returns_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_sweep().run(tmp_path / "seen", part_points=1)
    monkeypatch.setattr(_sweep_part, "holds", lambda folder, identity: False)
    returned: list[object] = []

    class Far(ThreadPoolExecutor):
        def submit(self, *arguments: Any, **options: Any) -> Future[Any]:
            future = super().submit(*arguments, **options)
            future.add_done_callback(lambda done: returned.append(done.result()))
            return future

    with Far(2) as pool:
        small_sweep().run(tmp_path / "far", executor=pool, part_points=1)
    assert len(returned) == 6 and all(isinstance(files, dict) for files in returned)
    assert hash_of_rows(tmp_path / "seen") == hash_of_rows(tmp_path / "far")


def test_tasks_in_flight_are_bounded(tmp_path: Path) -> None:
    in_flight: list[int] = []
    open_count = 0
    lock = threading.Lock()

    class Counting(ThreadPoolExecutor):
        def submit(self, *arguments: Any, **options: Any) -> Future[Any]:
            nonlocal open_count
            with lock:
                open_count += 1
                in_flight.append(open_count)
            future = super().submit(*arguments, **options)
            future.add_done_callback(self.close)
            return future

        def close(self, _: Future[Any]) -> None:
            nonlocal open_count
            with lock:
                open_count -= 1

    rates = {"links.up.rate_kbps": list(range(500, 600))}
    with Counting(2) as pool:
        short = tiny().with_({"duration": "100 ms"})
        made = Sweep(short, rates, seeds=1).run(tmp_path / "made", executor=pool, part_points=1)
    assert made.finished_count == 100 == len(in_flight)
    assert max(in_flight) <= 16


def test_progress_adds_up_to_the_simulated_time(tmp_path: Path) -> None:
    seconds: list[float] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small_sweep().run(tmp_path / "made", progress=seconds.append, part_points=2)
    assert len(seconds) == 3 and sum(seconds) == pytest.approx(18 * 2.0)


def test_unknown_tables_are_named(tmp_path: Path) -> None:
    made = small_sweep().run(tmp_path / "made")
    with pytest.raises(anabranch.UnknownName, match="did you mean 'flows'"):
        made.dataset("flow")
    with pytest.raises(anabranch.UnknownName, match=r'trace=\["frames"\]'):
        made.dataset("frames")
    with pytest.raises(IndexError, match="no point 6 of 6"):
        small_sweep().settings_of(6)
