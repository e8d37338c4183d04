"""Speed of environments: steps of 100 ms of simulated time per second and core.

    python python/benchmarks/gym.py [SECONDS]

Each row steps many environments with random actions, by one thread and by two, for this CPU time
(5 s if none is given). CPU time is that of the process, so it depends little on other work of the
machine; steps by the clock do. Episodes that end begin again, and this counts.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import gymnasium

import anabranch.gym  # noqa: F401

#: Number of environments that step together, as in the example of PPO.
COUNT = 64

ROWS: list[tuple[str, dict[str, Any]]] = [
    ("anabranch/RateControl-v0", {}),
    ("anabranch/RateControl-v0", {"action": "change"}),
    ("anabranch/RateControl-v0", {"scenario": "held-out"}),
    ("anabranch/Scheduling-v0", {}),
]


def measured(name: str, keys: dict[str, Any], threads: int, cpu_s: float) -> tuple[float, float]:
    """Return steps per second of CPU time, and of the clock."""
    envs = gymnasium.make_vec(name, num_envs=COUNT, threads=threads, **keys)
    envs.reset(seed=1)
    envs.action_space.seed(1)
    actions = [envs.action_space.sample() for _ in range(100)]
    steps = 0
    began_s, clock_s = time.process_time(), time.monotonic()
    while time.process_time() - began_s < cpu_s:
        envs.step(actions[steps % len(actions)])
        steps += 1
    made = steps * COUNT
    return made / (time.process_time() - began_s), made / (time.monotonic() - clock_s)


def main() -> None:
    cpu_s = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    print("| environment | parameters | threads | steps per CPU-second | steps per second |")
    print("|---|---|---|---|---|")
    for name, keys in ROWS:
        for threads in (1, 2):
            per_cpu_s, per_s = measured(name, keys, threads, cpu_s)
            shown = ", ".join(f"{key}={value!r}" for key, value in keys.items()) or "usual"
            print(f"| `{name}` | {shown} | {threads} | {per_cpu_s:,.0f} | {per_s:,.0f} |")


if __name__ == "__main__":
    main()
