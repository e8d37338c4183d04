"""Episodes of several environments, and the numbers that they return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from . import _native, _toml
from ._errors import UnknownName
from ._gym_families import Family, chosen
from ._run import as_scenario, as_threads
from ._scenario import Scenario

Floats: TypeAlias = NDArray[np.float64]

_STEP, _PATH = _native.episode_numbers()
_STEP_AT = {name: index for index, name in enumerate(_STEP)}
_PATH_AT = {name: index for index, name in enumerate(_PATH)}
#: Numbers of a path that its sender does not know.
_HIDDEN = _PATH[_PATH.index("capacity_bps") :]

#: Terms of a reward and their weights, unless others are given. Chosen: 100 ms of delay cost less
#: than half of the bitrate, and a missed frame more than the best quality gains.
WEIGHTS = {"quality": 1.0, "delay": -0.5, "missed": -2.0, "change": -0.02}
#: Unit and meaning of each term.
TERMS = {
    "quality": ("0 to 1", "logarithm of the bitrate of frames on time, from the least to the most"),
    "delay": ("deadlines", "time from capture to completion, 1 for frames that were missed"),
    "missed": ("share", "frames that were late, incomplete or given up"),
    "change": ("natural logarithm", "change of the bitrate requested of the encoder, either way"),
}


class Step(NamedTuple):
    """A step of `n` environments with `p` paths each, as a function of the reward gets it.

    `terms`: the terms of the usual reward (n,), see `anabranch.gym.reward_terms`. `frames`: frames
    whose outcome became known (n,): `on_time_frames`, `decodable_frames` (those of them that a viewer
    sees: the frames that they need have arrived), `missed_frames`, `complete_frames`,
    `frame_delay_sum_s`, `on_time_bytes`. `sender`: numbers that a sender knows (n, p):
    `sent_bytes`, `acked_bytes`, `acked_packets`, `lost_packets`, `mean_rtt_s`, `smoothed_rtt_s`,
    `min_rtt_s`, `silence_s`, `in_flight_bytes`, `unsent_bytes`, `bandwidth_bps`, `is_usable`.
    `network`: the state of the network (n, p): `capacity_bps`, `queued_bytes`, `delivered_bytes`,
    `delivered_packets`, `packet_delay_sum_s`, `dropped_packets`. `length_s`: simulated time (n,).
    `target_bps`: rate requested of the encoder (n,). NaN: not known, or no limit.

    >>> import gymnasium
    >>> import anabranch.gym
    >>> def goodput(step):
    ...     return 8e-6 * step.frames["on_time_bytes"] / step.length_s
    >>> env = gymnasium.make("anabranch/RateControl-v0", scenario="steady", reward=goodput)
    >>> _ = env.reset(seed=1)
    >>> env.step(env.action_space.sample())[1] >= 0.0
    True
    """

    terms: dict[str, Floats]
    frames: dict[str, Floats]
    sender: dict[str, Floats]
    network: dict[str, Floats]
    length_s: Floats
    target_bps: Floats


#: Weights of terms, or a function of a `Step` that returns a number for each environment.
Reward: TypeAlias = "Mapping[str, float] | Callable[[Step], Any]"
#: A split, names of families, a scenario, or a function that draws one.
Source: TypeAlias = (
    "str | Sequence[str] | Scenario | Mapping[str, Any] | Callable[[np.random.Generator], Scenario]"
)


class Made(NamedTuple):
    """A step that was made: rewards (n,), which episodes are over (n,), and infos by name."""

    step: Step
    rewards: Floats
    is_over: NDArray[np.bool_]
    infos: dict[str, Any]


class Drawn(NamedTuple):
    """A network that was drawn for an episode."""

    family: str
    native: Any
    flow: int


class Networks:
    """Networks of episodes, drawn from families, or given."""

    def __init__(
        self,
        source: Source,
        families: Sequence[Family],
        flow: str | None,
        baseline: Mapping[str, str],
    ) -> None:
        self._flow, self._baseline = flow, dict(baseline)
        self._families: list[Family] = []
        self._fixed: Scenario | None = None
        self._draw: Callable[[np.random.Generator], Scenario] | None = None
        if isinstance(source, str) or isinstance(source, Sequence):
            self._families = chosen(families, source)
        elif callable(source):
            self._draw = source
        else:
            self._fixed = as_scenario(source)

    def draw(self, rng: np.random.Generator, settings: Mapping[str, Any]) -> Drawn:
        """Return the network of the next episode, with these keys set."""
        if self._families:
            family = self._families[int(rng.integers(len(self._families)))]
            keys = family.draw(rng)
            keys["flows"][0].update(self._baseline)
            if not settings:
                # No more than this: an episode takes 15 ms.
                native = _native.parse(f"{family.name}.toml", _toml.dumps(keys), [], [], [])
                return Drawn(family.name, native, 0)
            scenario, name = Scenario(keys), family.name
        elif self._draw is not None:
            scenario = self._draw(rng)
            name = scenario.name
        else:
            assert self._fixed is not None
            scenario, name = self._fixed, self._fixed.name
        flow = self._flow_of(scenario)
        own = {f"flows.{flow}.{key}": value for key, value in self._baseline.items()}
        if not self._families and own:
            scenario = scenario.with_(own)
        return Drawn(name, scenario.with_(settings)._made if settings else scenario._made, flow)

    def _flow_of(self, scenario: Scenario) -> int:
        flows = scenario.describe()["flows"]
        media = [flow["name"] for flow in flows if flow["is_media"]]
        if not media:
            raise ValueError(f"{scenario.name}: an environment needs a flow of media")
        if self._flow is None:
            return scenario.flow_names.index(media[0])
        if self._flow not in media:
            raise UnknownName(
                f"no flow of media is called {self._flow!r}; known are {', '.join(media)}", media
            )
        return scenario.flow_names.index(self._flow)


class Scale(NamedTuple):
    """Rates in bit/s on a logarithmic scale from -1 to 1."""

    min_bps: float
    max_bps: float

    def of(self, bps: Any) -> Floats:
        """Return rates on the scale, within -2 and 2."""
        span = np.log(self.max_bps / self.min_bps)
        floor = np.maximum(np.asarray(bps, dtype=np.float64), 1.0)
        scaled: Floats = np.clip(2.0 * np.log(floor / self.min_bps) / span - 1.0, -2.0, 2.0)
        return scaled

    def bps(self, scaled: Any) -> Floats:
        """Return the rates in bit/s of numbers on the scale."""
        ratio = self.max_bps / self.min_bps
        wanted = (np.clip(np.asarray(scaled, dtype=np.float64), -1.0, 1.0) + 1.0) / 2.0
        return np.asarray(self.min_bps * ratio**wanted)


class Engine:
    """`count` episodes that step together on threads of Rust."""

    def __init__(
        self,
        networks: Networks,
        *,
        count: int,
        path_count: int,
        steering: str,
        step_ms: float,
        threads: int,
        reward: Reward | None,
    ) -> None:
        self._native = _native.NativeEpisodes(count, steering, step_ms / 1e3, as_threads(threads))
        self._networks, self._reward = networks, _checked(reward)
        self.count, self.path_count = count, path_count
        self.family = np.full(count, "", dtype=object)
        self.seed = np.zeros(count, dtype=np.uint64)
        self._target_bps = np.zeros(count)

    def reset(self, slot: int, rng: np.random.Generator, settings: Mapping[str, Any]) -> None:
        """Begin an episode of a network and a seed that are drawn."""
        drawn = self._networks.draw(rng, settings)
        seed = int(rng.integers(2**63))
        paths = self._native.reset(slot, drawn.native, drawn.flow, seed)
        if paths != self.path_count:
            raise ValueError(
                f"{drawn.family}: {paths} paths, but the first network has {self.path_count}: "
                "the spaces of an environment do not change"
            )
        self.family[slot], self.seed[slot] = drawn.family, seed
        self._target_bps[slot] = 0.0

    def step(self, decisions: Floats) -> Made:
        """Run a step of all episodes."""
        data = self._native.step(np.ascontiguousarray(decisions, dtype=np.float64).tobytes())
        rows = np.frombuffer(data).reshape(self.count, -1)
        of_paths = rows[:, len(_STEP) :].reshape(self.count, self.path_count, len(_PATH))
        path = {name: of_paths[:, :, index] for name, index in _PATH_AT.items()}
        step = self._step(rows, path)
        is_over = rows[:, _STEP_AT["is_over"]] > 0.0
        return Made(step, self._rewarded(step), is_over, self._infos(rows, step))

    def _step(self, rows: Floats, path: dict[str, Floats]) -> Step:
        def of(name: str) -> Floats:
            return rows[:, _STEP_AT[name]]

        length_s, target_bps = of("length_s"), of("target_bps")
        before = np.where(self._target_bps > 0.0, self._target_bps, target_bps)
        self._target_bps = target_bps.copy()
        change = np.abs(np.log(np.maximum(target_bps, 1.0) / np.maximum(before, 1.0)))
        terms = {
            name: of(f"{name}_s") / length_s for name in ("quality", "delay", "missed")
        } | {"change": change}
        frames = ["on_time_frames", "decodable_frames", "missed_frames", "complete_frames"]
        frames += ["frame_delay_sum_s", "on_time_bytes"]
        return Step(
            terms,
            {name: of(name) for name in frames},
            {name: values for name, values in path.items() if name not in _HIDDEN},
            {name: path[name] for name in _HIDDEN},
            length_s,
            target_bps,
        )

    def _rewarded(self, step: Step) -> Floats:
        if callable(self._reward):
            rewards = np.asarray(self._reward(step), dtype=np.float64)
            if rewards.shape != (self.count,) or not np.isfinite(rewards).all():
                raise ValueError(
                    f"reward: {self.count} finite numbers are needed, not {rewards!r}"
                )
            return rewards
        terms = (weight * step.terms[name] for name, weight in self._reward.items())
        return sum(terms, np.zeros(self.count))

    def _infos(self, rows: Floats, step: Step) -> dict[str, Any]:
        network, frames = step.network, step.frames
        length_s = step.length_s[:, None]
        capacity = network["capacity_bps"]
        complete = np.maximum(frames["complete_frames"], 1.0)
        packets = np.maximum(network["delivered_packets"], 1.0)
        return {
            "time_s": rows[:, _STEP_AT["time_s"]],
            "target_bps": step.target_bps,
            "goodput_bps": 8.0 * frames["on_time_bytes"] / step.length_s,
            "frames_on_time": frames["on_time_frames"],
            "frames_decodable_on_time": frames["decodable_frames"],
            "frames_missed": frames["missed_frames"],
            "frame_delay_ms": 1e3 * frames["frame_delay_sum_s"] / complete,
            "capacity_bps": np.where(np.isnan(capacity), np.inf, capacity),
            "queued_bytes": network["queued_bytes"],
            "delivered_bps": 8.0 * network["delivered_bytes"] / length_s,
            "packet_delay_ms": 1e3 * network["packet_delay_sum_s"] / packets,
            "dropped_packets": network["dropped_packets"],
            "family": self.family.copy(),
        }


def _checked(reward: Reward | None) -> Mapping[str, float] | Callable[[Step], Any]:
    if reward is None:
        return WEIGHTS
    if callable(reward):
        return reward
    for name in reward:
        if name not in WEIGHTS:
            known = list(WEIGHTS)
            raise UnknownName(
                f"no term of the reward is called {name!r}; known are {', '.join(known)}", known
            )
    return dict(reward)


class Feature(NamedTuple):
    """A number of an observation: its name, unit, bounds and meaning."""

    name: str
    unit: str
    low: float
    high: float
    meaning: str


_LOG = "logarithmic, -1 to 1 from the least to the highest rate"
_TENTHS = "100 ms"

#: Features of a path, in their order.
PATH_FEATURES = (
    Feature("decision", "", -2.0, 2.0, "rate of the last action, or share of the path (0 to 1)"),
    Feature("bandwidth", _LOG, -2.0, 2.0, "rate that the path's controller believes it carries"),
    Feature("sent", _LOG, -2.0, 2.0, "rate of the packets sent in the step"),
    Feature("acked", _LOG, -2.0, 2.0, "rate of the packets acknowledged in the step"),
    Feature("loss", "share", 0.0, 1.0, "packets declared lost, of those acknowledged or lost"),
    Feature("rtt", _TENTHS, 0.0, 20.0, "mean round-trip time of the step's acknowledged packets"),
    Feature("queueing", _TENTHS, 0.0, 20.0, "the same less the least one of the episode"),
    Feature("trend", _TENTHS, -10.0, 10.0, "the same less that of the step before"),
    Feature("in_flight", _TENTHS, 0.0, 20.0, "bytes in flight, in time at the bandwidth"),
    Feature("unsent", _TENTHS, 0.0, 20.0, "bytes that wait to be sent, in time at the bandwidth"),
    Feature("silence", _TENTHS, 0.0, 20.0, "time since the receiver's last report"),
    Feature("usable", "", 0.0, 1.0, "1 if packets may take the path"),
)


class Observer:
    """Observations of `count` environments: the features of the last `history` steps.

    Features of a path stand together, the paths follow each other, and the newest step is last.
    """

    def __init__(self, count: int, path_count: int, history: int, scale: Scale) -> None:
        if history < 1:
            raise ValueError(f"history: at least one step, not {history}")
        self._count, self._scale = count, scale
        self._repeats = path_count * history
        self._rtt_s: Floats = np.zeros((count, path_count))
        width = self._repeats * len(PATH_FEATURES)
        self._past: NDArray[np.float32] = np.zeros((count, width), dtype=np.float32)

    def bounds(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the least and the highest observation."""
        low, high = (np.tile(bound, self._repeats).astype(np.float32) for bound in (_LOW, _HIGH))
        return low, high

    def clear(self, slots: Sequence[int]) -> None:
        """Forget the past of some environments, whose episodes begin."""
        self._past[list(slots)] = 0.0
        self._rtt_s[list(slots)] = 0.0

    def present(self) -> NDArray[np.float32]:
        """Return the observations, a row each."""
        past: NDArray[np.float32] = self._past.copy()
        return past

    def add(self, sender: Mapping[str, Floats], length_s: Floats, decision: Floats) -> None:
        """Add a step. `decision`: the rate on the scale or the shares, (count, paths)."""
        length = length_s[:, None]
        bandwidth = np.maximum(sender["bandwidth_bps"], 1e3)
        smoothed = np.nan_to_num(sender["smoothed_rtt_s"])
        rtt_s = np.where(np.isnan(sender["mean_rtt_s"]), smoothed, sender["mean_rtt_s"])
        before_s = np.where(self._rtt_s > 0.0, self._rtt_s, rtt_s)
        self._rtt_s = rtt_s
        lost, acked = sender["lost_packets"], sender["acked_packets"]
        features = (
            decision,
            self._scale.of(bandwidth),
            self._scale.of(8.0 * sender["sent_bytes"] / length),
            self._scale.of(8.0 * sender["acked_bytes"] / length),
            lost / np.maximum(lost + acked, 1.0),
            10.0 * rtt_s,
            10.0 * (rtt_s - np.fmin(np.nan_to_num(sender["min_rtt_s"]), rtt_s)),
            10.0 * (rtt_s - before_s),
            80.0 * sender["in_flight_bytes"] / bandwidth,
            80.0 * sender["unsent_bytes"] / bandwidth,
            10.0 * sender["silence_s"],
            sender["is_usable"],
        )
        newest = np.stack(features, axis=2)
        np.clip(newest, _LOW, _HIGH, out=newest)
        width = newest.shape[1] * newest.shape[2]
        kept = self._past[:, width:]
        self._past = np.concatenate([kept, newest.reshape(self._count, width)], axis=1)
        self._past = self._past.astype(np.float32)


_LOW = np.array([feature.low for feature in PATH_FEATURES])
_HIGH = np.array([feature.high for feature in PATH_FEATURES])
