"""Speed of sweeps with one worker and two, and the memory of the client.

    python python/benchmarks/sweep.py [POINTS]

Workers are processes of a Dask cluster on this machine. The scenario is a flow of video over one
link for 2 s. The client's memory is the highest resident set of a process that does nothing else,
once with a tenth of the points and once with all (10,000 if none are given). CPU time is that of
processes, so it depends little on other work of the machine.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import anabranch
from anabranch.testing import small_scenario

#: Points of the measurement of speed.
SPEED_POINTS = 4000
#: Rounds of that measurement; other work of the machine disturbs some.
ROUNDS = 3


def sweep(point_count: int) -> anabranch.Sweep:
    """Return a sweep of one seed over this many rates."""
    scenario = small_scenario().with_({"duration_s": 2, "expect": {}})
    rates = [500_000 + 100 * point for point in range(point_count)]
    return anabranch.Sweep(scenario, {"links.up.rate_bps": rates}, seeds=1)


def memory_mb() -> float:
    """Return the highest resident set of this process until now, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def drive(address: str, point_count: int) -> dict[str, float]:
    """Run a sweep as a client, and return its speed, CPU time and memory."""
    import distributed

    client_of: Any = distributed.Client
    with client_of(address) as client, tempfile.TemporaryDirectory() as folder:
        # Workers import the package, and read files for the first time.
        sweep(8).run(folder + "/first", executor=client, part_points=1, progress=False)
        made_sweep = sweep(point_count)
        before_mb = memory_mb()
        workers_s, own_s = sum(client.run(time.process_time).values()), time.process_time()
        began_at = time.monotonic()
        made = made_sweep.run(folder + "/made", executor=client, progress=False)
        took_s = time.monotonic() - began_at
        assert made.finished_count == point_count and len(made.failed) == 0
        own_s = time.process_time() - own_s
        workers_s = sum(client.run(time.process_time).values()) - workers_s
        return {
            "points_per_s": point_count / took_s,
            "worker_cpu_ms_per_point": 1e3 * workers_s / point_count,
            "client_cpu_ms_per_point": 1e3 * own_s / point_count,
            "before_mb": before_mb,
            "peak_mb": memory_mb(),
        }


def measure(worker_count: int, point_count: int) -> dict[str, float]:
    """Return points per second, and the client's memory in MB before and at its peak."""
    import distributed

    context = multiprocessing.get_context("spawn")
    cluster_of: Any = distributed.LocalCluster
    cluster = cluster_of(
        n_workers=worker_count, threads_per_worker=1, processes=True, dashboard_address=":0"
    )
    with cluster:
        # A process of its own for each client, whose memory is its own.
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            found = pool.submit(drive, cluster.scheduler_address, point_count).result()
    return {"workers": worker_count, "points": point_count, **found}


def main() -> None:
    """Print a line of JSON for each measurement."""
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    load = os.getloadavg()[0]
    print(json.dumps({"cores": os.cpu_count(), "load_before": load, "python": sys.version[:6]}))
    fastest = {1: 0.0, 2: 0.0}
    for _ in range(ROUNDS):
        for worker_count in fastest:
            found = measure(worker_count, SPEED_POINTS)
            fastest[worker_count] = max(fastest[worker_count], found["points_per_s"])
            print(json.dumps(found), flush=True)
    efficiency = fastest[2] / fastest[1] / 2
    print(json.dumps({"efficiency_of_two_fastest_of_rounds": efficiency}), flush=True)
    for point_count in (most // 10, most):
        print(json.dumps(measure(2, point_count)), flush=True)


if __name__ == "__main__":
    main()
