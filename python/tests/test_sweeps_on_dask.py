"""Sweeps on a Dask cluster: real schedulers and workers, some of which are killed."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anabranch
import pytest
from anabranch import Sweep, SweepResult
from anabranch.testing import small_scenario

distributed = pytest.importorskip(
    "distributed", reason="dask is not installed: pip install 'anabranch[dask]'"
)
pytest.importorskip("pyarrow", reason="sweeps need pyarrow: pip install 'anabranch[arrow]'")

OPTIONS = {"dashboard_address": ":0", "silence_logs": 50}


def sweep() -> Sweep:
    """Return a sweep of 80 runs in 40 points, of which one is impossible."""
    scenario = small_scenario().with_({"duration_s": 4, "expect": {}})
    rates: list[Any] = [*range(500, 2450, 50), -1]
    return Sweep(scenario, {"links.up.rate_kbps": rates}, seeds=2)


def hash_of_rows(folder: Path) -> str:
    """Return a hash of all rows of all tables, in their order."""
    result, digest = SweepResult.load(folder), hashlib.sha256()
    for name in result.table_names:
        rows = result.dataset(name).to_table()
        digest.update(f"{name} {rows.schema.to_string()} {rows.to_pydict()}".encode())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def of_one_machine(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the hash of the rows of an undisturbed run with one thread."""
    folder = tmp_path_factory.mktemp("undisturbed")
    made = sweep().run(folder, threads=1)
    assert not made.is_partial and len(made.failed) == 2
    return hash_of_rows(folder)


@pytest.fixture
def client() -> Iterator[Any]:
    """Return the client of a cluster of two processes."""
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, **OPTIONS)
    with cluster, distributed.Client(cluster) as client:
        yield client


def test_a_cluster_makes_equal_rows(tmp_path: Path, client: Any, of_one_machine: str) -> None:
    made = sweep().run(tmp_path, executor=client, part_points=3)
    assert not made.is_partial and hash_of_rows(tmp_path) == of_one_machine
    machines = client.who_has()
    assert not machines, "no result is left in the cluster"


def test_a_killed_worker_changes_no_row(tmp_path: Path, client: Any, of_one_machine: str) -> None:
    pids: dict[str, int] = client.run(os.getpid)
    finished: list[float] = []

    def kill_one(seconds: float) -> None:
        finished.append(seconds)
        if len(finished) == 3:
            os.kill(next(iter(pids.values())), signal.SIGKILL)

    made = sweep().run(tmp_path, executor=client, part_points=1, progress=kill_one)
    assert len(finished) == 40 and not made.is_partial
    assert set(client.run(os.getpid).values()) != set(pids.values())
    assert hash_of_rows(tmp_path) == of_one_machine


def test_algorithms_of_a_script_reach_the_workers(tmp_path: Path, client: Any) -> None:
    # The class has no module that a worker could import.
    space: dict[str, Any] = {"anabranch": anabranch, "__name__": "__main__"}
    exec(
        "class Steady(anabranch.Controller):\n"
        "    def start(self, config):\n"
        "        return anabranch.Control(pacing_bps=500_000, target_bps=500_000)\n"
        "    def on_feedback(self, now_s, feedback):\n"
        "        return None\n",
        space,
    )
    scenario = small_scenario().with_({"flows.0.controller": space["Steady"]})
    own = Sweep(scenario, {"links.up.loss": [0.0, 0.02]}, seeds=1)
    made = own.run(tmp_path / "there", executor=client, part_points=1)
    own.run(tmp_path / "here", threads=1)
    assert len(made.failed) == 0
    assert hash_of_rows(tmp_path / "there") == hash_of_rows(tmp_path / "here")


def test_a_worker_of_another_version_is_refused(
    tmp_path: Path, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = anabranch.__version__
    monkeypatch.setattr("anabranch._native.__version__", "0.0.1")
    with pytest.raises(anabranch.VersionError) as caught:
        sweep().run(tmp_path, executor=client)
    assert caught.value.versions == ["0.0.1", version]
    assert "0.0.1" in str(caught.value) and version in str(caught.value)
    assert SweepResult.load(tmp_path).finished_count == 0


class Programs:
    """A scheduler and workers, started as a user or SLURM does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "scheduler.json"
        self.started: list[subprocess.Popen[bytes]] = []
        self.start("scheduler", "--port", "0", "--no-dashboard")
        until = time.monotonic() + 120
        while not self.file.exists():
            assert time.monotonic() < until, "the scheduler does not start"
            time.sleep(0.1)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a program of Dask."""
        command = [sys.executable, "-m", "dask", *words, "--scheduler-file", str(self.file)]
        quiet = subprocess.DEVNULL
        program = subprocess.Popen(command, cwd=self.folder, stdout=quiet, stderr=quiet)
        self.started.append(program)
        return program

    def worker(self) -> subprocess.Popen[bytes]:
        """Start a worker of one thread, which nobody starts again."""
        return self.start("worker", "--nthreads", "1", "--no-nanny", "--no-dashboard")

    def end(self) -> None:
        """End all programs."""
        for program in reversed(self.started):
            program.kill()
            program.wait()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    """Return a scheduler that is running."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    made = Programs(folder)
    try:
        yield made
    finally:
        made.end()


def test_programs_of_dask_lose_a_worker_and_then_all(
    tmp_path: Path, programs: Programs, of_one_machine: str
) -> None:
    first, second = programs.worker(), programs.worker()
    finished: list[float] = []

    def disturb(seconds: float) -> None:
        finished.append(seconds)
        if len(finished) == 3:
            first.kill()
        if len(finished) == 12:
            second.kill()
            raise KeyboardInterrupt

    with distributed.Client(scheduler_file=str(programs.file)) as client:
        client.wait_for_workers(2, timeout=120)
        with pytest.warns(RuntimeWarning, match="interrupted"):
            made = sweep().run(tmp_path / "made", executor=client, part_points=1, progress=disturb)
        assert made.is_partial and made.finished_count >= 24
    programs.worker()
    finished_before = made.finished_count
    seconds: list[float] = []
    with distributed.Client(scheduler_file=str(programs.file)) as client:
        made = sweep().run(tmp_path / "made", executor=client, progress=seconds.append)
    assert not made.is_partial and sum(seconds) <= 4.0 * (80 - finished_before)
    assert hash_of_rows(tmp_path / "made") == of_one_machine
