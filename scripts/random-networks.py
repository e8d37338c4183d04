#!/usr/bin/env python3
"""Writes scenarios of random networks, which no algorithm has been tuned for.

    scripts/random-networks.py FOLDER [COUNT] [FIRST]
    for file in FOLDER/*.toml; do anabranch-lab run "$file" --seeds 3; done

Each has one to three paths: rates of 1 to 8 Mbit/s, 5 to 250 ms one way, queues of 60 to 1000 ms, and at random
losses (single or in bursts), jitter, rates and delays that step, outages. The source gives a share of 0.4 to 1.05 of
the paths' capacity, or follows it, within a latency in which a key frame fits. The same number gives the same file.
docs/decisions/0100-rules-that-somebody-misses.md is an ablation over such networks.
"""

import random
import sys
from pathlib import Path


def steps(draw, pauses, entry):
    """Returns entries at random distances, up to second 55."""
    at, entries = 0, []
    while at < 55:
        at += draw.choice(pauses)
        entries.append(entry(at))
    return entries


def schedule(key, entries):
    return f"{key} = [{', '.join(entries)}]\n"


def link(draw, name):
    """Returns the two links of a path, its average rate (kbit/s), and its delay (ms)."""
    rate = draw.choice([1000, 1500, 2000, 3000, 4000, 6000, 8000])
    delay = draw.choice([5, 10, 20, 30, 50, 80, 120, 250])
    queue = draw.choice([60, 100, 200, 300, 600, 1000])
    loss = jitter = rates = outages = delays = ""
    kind = draw.random()
    if kind < 0.25:
        loss = f'loss = "{draw.choice([0.1, 0.5, 1, 2, 4])} %"\n'
    elif kind < 0.45:
        good, bad = draw.choice([0.3, 1, 2]), draw.choice([20, 40])
        loss = f'loss = {{ good-to-bad = "{good} %", bad-to-good = "{bad} %" }}\n'
    if draw.random() < 0.4:
        spread, order = draw.choice([5, 10, 20, 40]), draw.choice(["bunched", "reordered", "bunched"])
        jitter = f'jitter = {{ uniform = "{spread} ms", order = "{order}" }}\n'
    carried = float(rate)
    if draw.random() < 0.45:
        drawn = []

        def step(at):
            drawn.append(int(rate * draw.choice([0.25, 0.4, 0.6, 0.8, 1, 1.2])))
            return f'{{ at = "{at} s", rate = "{drawn[-1]} kbit/s" }}'

        rates = schedule("rate-schedule", steps(draw, [3, 5, 8], step))
        carried = sum(drawn) / len(drawn)
    if draw.random() < 0.35:
        def outage(at):
            return f'{{ at = "{at + 2} s", for = "{draw.choice([150, 400, 900, 2000])} ms" }}'

        outages = schedule("outages", steps(draw, [4, 7, 11], outage))
        carried *= 0.9
    if draw.random() < 0.3:
        def move(at):
            return f'{{ at = "{at} s", delay = "{delay + draw.choice([0, 15, 30, 60])} ms" }}'

        delays = schedule("delay-schedule", steps(draw, [3, 7, 15], move))
    base = f'rate = "{rate} kbit/s"\ndelay = "{delay} ms"\nqueue = "{queue} ms"\n'
    there = f"[links.{name}]\n{base}{loss}{jitter}{rates}{outages}{delays}\n"
    back = f"[links.{name}-return]\n{base}{loss}{jitter}{outages}{delays}\n"
    route = f'[routes.{name}]\nforward = ["{name}"]\nreverse = ["{name}-return"]\n\n'
    return there + back + route, carried, delay


def scenario(number):
    draw = random.Random(number)
    names = [f"path-{index}" for index in range(draw.choice([1, 2, 2, 2, 3]))]
    links = [link(draw, name) for name in names]
    carried = sum(one[1] for one in links)
    farthest = max(one[2] for one in links)
    media = int(max(300, min(8000, carried * draw.choice([0.4, 0.5, 0.6, 0.7, 1.05]))))
    latency = draw.choice([150, 250, 500, 800, 1000])
    # A key frame of five times the average leaves within a third of it.
    latency += max(0, -(-(5 * media / 25 / carried * 1000 / 0.35 - latency) // 100) * 100)
    kind = draw.random()
    if kind < 0.3:
        shape = f"key-interval = \"2 s\", key-ratio = {draw.choice([3, 5])}"
        source = f'{{ kind = "gop", fps = 25, rate = "{media} kbit/s", {shape} }}'
    elif kind < 0.5:
        source = f'{{ kind = "gop", fps = 25, rate = "{media} kbit/s", key-interval = "2 s", pattern = "IBBP" }}'
    elif kind < 0.65:
        source = f'{{ kind = "cbr", fps = 30, rate = "{media} kbit/s" }}'
    else:
        source = f'{{ kind = "gop", min = "300 kbit/s", max = "{int(carried * 1.2)} kbit/s", key-on-loss = true }}'
    paths = ", ".join(f'"{name}"' for name in names)
    return (
        f'title = "Random network {number}"\nduration = "60 s"\n\n'
        + "".join(one[0] for one in links)
        + f'[[flows]]\nname = "camera"\npaths = [{paths}]\noverhead = "54 B"\n'
        + f'deadline = "{int(latency) + farthest} ms"\nreassembly-wait = "{int(latency)} ms"\nsource = {source}\n'
    )


def main(folder, count="40", first="1"):
    Path(folder).mkdir(parents=True, exist_ok=True)
    for number in range(int(first), int(first) + int(count)):
        (Path(folder) / f"network-{number:04}.toml").write_text(scenario(number))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3, 4) or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
