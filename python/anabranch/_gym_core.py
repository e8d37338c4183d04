"""Spaces, actions and observations of environments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ._gym_engine import Engine, Made, Networks, Observer, Reward, Scale, Source
from ._gym_families import MAX_BPS, MIN_BPS, ONE_PATH, TWO_PATHS, Family

#: Largest change of a rate in a step by the action "change": twice or half.
_CHANGE = float(np.log(2.0))
#: Rate before the first action, in bit/s: the usual `initial-rate` of scenarios.
_INITIAL_BPS = 300_000.0
#: Keys of a flow that a baseline sets.
_KEYS = {"rate": "controller", "split": "scheduler"}


class Task(NamedTuple):
    """Kind of environment: its decisions, its actions and its networks."""

    steering: str
    actions: tuple[str, ...]
    families: tuple[Family, ...]


RATE_CONTROL = Task("rate", ("rate", "change"), ONE_PATH)
SCHEDULING = Task("split", ("split", "path"), TWO_PATHS)


class Core:
    """`count` environments of one kind. The other parameters are those of `RateControlEnv`.

    `baseline`: the controller or scheduler that decides instead of the actions.
    """

    def __init__(
        self,
        task: Task,
        count: int,
        *,
        scenario: Source = "train",
        flow: str | None = None,
        action: str | None = None,
        step_ms: float = 100.0,
        history: int = 4,
        reward: Reward | None = None,
        min_bps: float = MIN_BPS,
        max_bps: float = MAX_BPS,
        threads: int = 0,
        baseline: str | None = None,
    ) -> None:
        self.task, self.action = task, action or task.actions[0]
        if self.action not in task.actions:
            raise ValueError(f"action: {' or '.join(map(repr, task.actions))}, not {action!r}")
        if not 0.0 < min_bps < max_bps < np.inf:
            raise ValueError(f"min_bps, max_bps: rates in order, not {min_bps} and {max_bps}")
        if count < 1:
            raise ValueError(f"num_envs: at least one, not {count}")
        self.scale, self.baseline = Scale(min_bps, max_bps), baseline
        networks = Networks(
            scenario, task.families, flow, {_KEYS[task.steering]: baseline} if baseline else {}
        )
        self.path_count = _path_count(networks)
        self.engine = Engine(
            networks,
            count=count,
            path_count=self.path_count,
            steering="none" if baseline else task.steering,
            step_ms=step_ms,
            threads=threads,
            reward=reward,
        )
        self.observer = Observer(count, self.path_count, history, self.scale)
        self.observation_space = spaces.Box(*self.observer.bounds(), dtype=np.float32)
        self.action_space = self._action_space()
        self._scaled: NDArray[np.float64] = np.zeros(count)
        self._settings: Mapping[str, Any] = {}

    def _action_space(self) -> spaces.Space[Any]:
        if self.task is RATE_CONTROL:
            return spaces.Box(-1.0, 1.0, (1,), dtype=np.float32)
        if self.action == "path":
            return spaces.Discrete(self.path_count)
        return spaces.Box(0.0, 1.0, (self.path_count,), dtype=np.float32)

    def configure(self, options: Mapping[str, Any] | None) -> None:
        """Take the options of a reset, which hold until the next one."""
        unknown = sorted(set(options or {}) - {"set"})
        if unknown:
            raise ValueError(f"options: only 'set' is known, not {', '.join(map(repr, unknown))}")
        self._settings = dict((options or {}).get("set") or {})

    def begin(self, slots: Sequence[int], rngs: Sequence[np.random.Generator]) -> None:
        """Begin an episode in each of these slots, drawn by the generator of its number."""
        for slot in slots:
            self.engine.reset(slot, rngs[slot], self._settings)
        self.observer.clear(slots)
        self._scaled[list(slots)] = self.scale.of(_INITIAL_BPS)

    def step(self, actions: Any) -> Made:
        """Run a step."""
        decisions, shown = self._decided(actions)
        made = self.engine.step(decisions)
        self.observer.add(made.step.sender, made.step.length_s, shown)
        return made

    def _decided(self, actions: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the decisions of actions for the simulator, and for the observation."""
        count, paths = self.engine.count, self.path_count
        if self.baseline:
            return np.zeros((count, 0)), np.zeros((count, paths))
        if self.task is SCHEDULING and self.action == "path":
            weights = np.eye(paths)[np.asarray(actions, dtype=np.int64).reshape(count)]
            return weights, weights
        given = np.asarray(actions, dtype=np.float64).reshape(count, -1)
        if not np.isfinite(given).all():
            raise ValueError(f"an action has finite numbers, not {actions!r}")
        if self.task is SCHEDULING:
            weights = np.clip(given, 0.0, 1.0)
            weights[weights.sum(axis=1) <= 0.0] = 1.0
            shares = weights / weights.sum(axis=1, keepdims=True)
            return shares, shares
        wanted = np.clip(given[:, 0], -1.0, 1.0)
        if self.action == "change":
            span = np.log(self.scale.max_bps / self.scale.min_bps)
            wanted = np.clip(self._scaled + 2.0 * _CHANGE * wanted / span, -1.0, 1.0)
        self._scaled = wanted
        return self.scale.bps(wanted)[:, None], wanted[:, None]


def _path_count(networks: Networks) -> int:
    """Return the number of paths of a network."""
    drawn = networks.draw(np.random.default_rng(0), {})
    flow = json.loads(drawn.native.describe())["flows"][drawn.flow]
    return len(flow["routes"])
