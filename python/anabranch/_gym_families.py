"""Networks that environments of reinforcement learning draw: training and held-out families."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ._errors import UnknownName
from ._native import nearest_name

Rng: TypeAlias = np.random.Generator
Keys: TypeAlias = dict[str, Any]

#: Least and highest bitrate of the video, in bit/s: two orders of magnitude less a factor of two,
#: from a thumbnail to full HD.
MIN_BPS, MAX_BPS = 100_000.0, 5_000_000.0
#: Simulated length of an episode, in seconds: a dozen changes of a network, 300 decisions.
EPISODE_S = 30.0
#: Deadline of a frame, in ms: ITU-T G.114's bound of a conversation.
DEADLINE_MS = 400


class Family(NamedTuple):
    """A family of networks, of which each episode draws one."""

    name: str
    split: str
    summary: str
    draw: Callable[[Rng], Keys]


def _log(rng: Rng, low: float, high: float) -> float:
    """Return a number whose logarithm is uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _ms(rng: Rng, low: float, high: float) -> str:
    return f"{rng.uniform(low, high):.1f} ms"


def _rate(bps: float) -> str:
    return f"{int(bps)} bit/s"


def _link(rng: Rng, bps: float, **keys: Any) -> Keys:
    """Return an uplink of this rate with a usual delay and queue."""
    return {"rate": _rate(bps), "delay": _ms(rng, 5, 60), "queue": _ms(rng, 60, 400), **keys}


def _levels(rng: Rng, low: float, high: float, every_s: tuple[float, float]) -> list[Keys]:
    """Return a schedule of rates that are drawn anew after some seconds."""
    changes, at = [], float(rng.uniform(*every_s))
    while at < EPISODE_S:
        changes.append({"at": f"{at:.2f} s", "rate": _rate(_log(rng, low, high))})
        at += float(rng.uniform(*every_s))
    return changes


def _fading(rng: Rng, bps: float) -> list[Keys]:
    """Return a schedule of rates twice a second, whose logarithm is an AR(1) process."""
    level, changes = 0.0, []
    for half_s in range(1, int(2 * EPISODE_S)):
        level = 0.9 * level + float(rng.normal(0.0, 0.25))
        rate = bps * float(np.exp(np.clip(level, -1.5, 1.0)))
        changes.append({"at": f"{half_s / 2:.1f} s", "rate": _rate(rate)})
    return changes


def _network(paths: dict[str, Keys], **flow: Any) -> Keys:
    """Return a scenario of one flow of video, over a path for each uplink."""
    return {
        "duration_s": EPISODE_S,
        "links": {**paths, "back": {"delay": "20 ms"}},
        "routes": {name: {"forward": [name], "reverse": ["back"]} for name in paths},
        "flows": [
            {
                "name": "video",
                "paths": list(paths),
                "deadline_ms": DEADLINE_MS,
                "source": {"kind": "ideal", "fps": 30, "min_bps": MIN_BPS, "max_bps": MAX_BPS},
                **flow,
            }
        ],
    }


def _one(link: Keys, *others: Keys) -> Keys:
    network = _network({"up": link})
    network["flows"] += [{"paths": ["up"], **other} for other in others]
    return network


def _steady(rng: Rng) -> Keys:
    return _one(_link(rng, _log(rng, 3e5, 3e6)))


def _steps(rng: Rng) -> Keys:
    link = _link(rng, _log(rng, 3e5, 3e6))
    return _one({**link, "rate-schedule": _levels(rng, 3e5, 3e6, (4, 10))})


def _lossy(rng: Rng) -> Keys:
    return _one(_link(rng, _log(rng, 3e5, 3e6), loss=float(rng.uniform(0.002, 0.03))))


def _cross(rng: Rng) -> Keys:
    bps = _log(rng, 8e5, 3e6)
    other = {
        "name": "cross",
        "kind": "on-off",
        "rate": _rate(bps * rng.uniform(0.2, 0.5)),
        "on": _ms(rng, 1000, 4000),
        "off": _ms(rng, 1000, 4000),
        "periods": "exponential",
    }
    return _one(_link(rng, bps), other)


def _drop(rng: Rng) -> Keys:
    bps = _log(rng, 1.5e6, 3e6)
    fall_s, back_s = rng.uniform(6, 10), rng.uniform(16, 22)
    changes = [
        {"at": f"{fall_s:.2f} s", "rate": _rate(bps * rng.uniform(0.15, 0.3))},
        {"at": f"{back_s:.2f} s", "rate": _rate(bps)},
    ]
    return _one({**_link(rng, bps), "rate-schedule": changes})


def _faded(rng: Rng) -> Keys:
    bps = _log(rng, 5e5, 2e6)
    return _one({**_link(rng, bps), "rate-schedule": _fading(rng, bps)})


def _deep(rng: Rng) -> Keys:
    return _one(_link(rng, _log(rng, 4e5, 2e6), queue=_ms(rng, 800, 2000)))


def _download(rng: Rng) -> Keys:
    start_s = rng.uniform(5, 10)
    other = {
        "name": "download",
        "kind": "bulk",
        "controller": "cubic",
        "start": f"{start_s:.2f} s",
        "stop": f"{start_s + rng.uniform(8, 14):.2f} s",
    }
    return _one(_link(rng, _log(rng, 1e6, 3e6)), other)


def _silence(rng: Rng) -> Keys:
    outage = {"at": f"{rng.uniform(6, 20):.2f} s", "for": _ms(rng, 500, 2000)}
    return _one(_link(rng, _log(rng, 5e5, 2.5e6), outages=[outage]))


def _two(wifi: Keys, lte: Keys) -> Keys:
    return _network({"wifi": wifi, "lte": lte})


def _uneven(rng: Rng) -> Keys:
    return _two(_link(rng, _log(rng, 5e5, 2e6)), _link(rng, _log(rng, 3e5, 1.5e6)))


def _lossy_pair(rng: Rng) -> Keys:
    wifi = _link(rng, _log(rng, 5e5, 2e6), loss=float(rng.uniform(0.005, 0.05)))
    return _two(wifi, _link(rng, _log(rng, 5e5, 1.5e6)))


def _stepping_pair(rng: Rng) -> Keys:
    pair = [_link(rng, _log(rng, 4e5, 2e6)) for _ in range(2)]
    wifi, lte = ({**link, "rate-schedule": _levels(rng, 3e5, 2e6, (4, 10))} for link in pair)
    return _two(wifi, lte)


def _outage_pair(rng: Rng) -> Keys:
    wifi, lte = _link(rng, _log(rng, 8e5, 2e6)), _link(rng, _log(rng, 5e5, 1.5e6))
    at = [{"at": f"{rng.uniform(5, 20):.2f} s", "for": _ms(rng, 1000, 4000)}]
    return _two({**wifi, "outages": at}, lte)


def _fading_pair(rng: Rng) -> Keys:
    bps = _log(rng, 6e5, 1.5e6)
    wifi = {**_link(rng, bps), "rate-schedule": _fading(rng, bps)}
    return _two(wifi, _link(rng, _log(rng, 4e5, 1.2e6)))


def _swap(rng: Rng) -> Keys:
    high, low = _log(rng, 1e6, 2e6), _log(rng, 3e5, 6e5)
    at = f"{rng.uniform(10, 20):.2f} s"
    wifi = {**_link(rng, high), "rate-schedule": [{"at": at, "rate": _rate(low)}]}
    return _two(wifi, {**_link(rng, low), "rate-schedule": [{"at": at, "rate": _rate(high)}]})


_TRAIN, _HELD_OUT = "train", "held-out"

#: Families of one path.
ONE_PATH = (
    Family("steady", _TRAIN, "a constant rate of 0.3 to 3 Mbit/s", _steady),
    Family("steps", _TRAIN, "a new rate every 4 to 10 s", _steps),
    Family("lossy", _TRAIN, "0.2 to 3 % random loss", _lossy),
    Family("cross-traffic", _TRAIN, "a source without control that starts and stops", _cross),
    Family("drop", _HELD_OUT, "a fall to 15 to 30 % of the rate, and its end", _drop),
    Family("fading", _HELD_OUT, "a rate that varies twice a second, as of radio", _faded),
    Family("deep-queue", _HELD_OUT, "a queue of 0.8 to 2 s", _deep),
    Family("download", _HELD_OUT, "a download by cubic for 8 to 14 s", _download),
    Family("outage", _HELD_OUT, "an outage of 0.5 to 2 s", _silence),
)

#: Families of two paths.
TWO_PATHS = (
    Family("uneven", _TRAIN, "two constant rates and delays", _uneven),
    Family("lossy", _TRAIN, "0.5 to 5 % random loss on one path", _lossy_pair),
    Family("steps", _TRAIN, "new rates of both every 4 to 10 s", _stepping_pair),
    Family("outage", _HELD_OUT, "an outage of one path for 1 to 4 s", _outage_pair),
    Family("fading", _HELD_OUT, "a rate that varies twice a second on one path", _fading_pair),
    Family("swap", _HELD_OUT, "the faster path becomes the slower one", _swap),
)


def chosen(families: Sequence[Family], names: str | Sequence[str]) -> list[Family]:
    """Return the families of a split, or of these names. Raise `UnknownName`."""
    wanted = [names] if isinstance(names, str) else list(names)
    found: list[Family] = []
    for name in wanted:
        some = [family for family in families if name in (family.name, family.split)]
        if not some:
            known = [_TRAIN, _HELD_OUT, *(family.name for family in families)]
            near = nearest_name(name, known)
            hint = f"; did you mean {near!r}?" if near else ""
            message = f"no family is called {name!r}; known are {', '.join(known)}{hint}"
            raise UnknownName(message, known, near)
        found += [family for family in some if family not in found]
    return found
