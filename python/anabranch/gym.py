"""Environments of reinforcement learning for gymnasium, with the extra `rl`.

`import anabranch.gym` registers them:

| name | action |
|---|---|
| `anabranch/RateControl-v0` | the rate of a flow of video over one path |
| `anabranch/Scheduling-v0` | the shares of paths, or a path, of a flow of video over several |

`gymnasium.make_vec` steps many environments on threads of Rust.

>>> import gymnasium
>>> import anabranch.gym
>>> env = gymnasium.make("anabranch/RateControl-v0")
>>> observation, info = env.reset(seed=1)
>>> observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
>>> round(float(info["time_s"]), 3), terminated
(0.1, False)
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ._errors import MissingExtra

try:
    import gymnasium
except ModuleNotFoundError as error:
    if error.name != "gymnasium":
        raise
    raise MissingExtra("gymnasium", "rl") from None
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ._gym_core import RATE_CONTROL, SCHEDULING
from ._gym_core import Core as _Core
from ._gym_core import Task as _Task
from ._gym_engine import PATH_FEATURES, TERMS, WEIGHTS, Step
from ._gym_evaluation import evaluate
from ._gym_families import ONE_PATH, TWO_PATHS
from ._gym_training import stable_baselines_env
from ._table import Table

__all__ = [
    "RateControlEnv",
    "RateControlVectorEnv",
    "SchedulingEnv",
    "SchedulingVectorEnv",
    "Step",
    "evaluate",
    "families",
    "observation_features",
    "reward_terms",
    "stable_baselines_env",
]


def _without_core(env: Any) -> dict[str, Any]:
    """Return the attributes of an environment that pickle: all but its episodes.

    A copy draws the networks that the original would draw next, and begins by `reset`.
    """
    return {name: value for name, value in vars(env).items() if name != "_core"}


class _Env(gymnasium.Env[NDArray[np.float32], Any]):
    """One environment."""

    metadata: dict[str, Any] = {"render_modes": []}
    _task: ClassVar[_Task]

    def __init__(self, *, render_mode: str | None = None, **keys: Any) -> None:
        if render_mode is not None:
            raise ValueError("render_mode: there is none; draw traces of a run instead")
        self.render_mode = None
        self._keys = {"threads": 1, **keys}
        self._core = _Core(self._task, 1, **self._keys)
        self.observation_space = self._core.observation_space
        self.action_space = self._core.action_space

    def __getstate__(self) -> dict[str, Any]:
        return _without_core(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._core = _Core(self._task, 1, **self._keys)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode, and return its first observation and info.

        `seed`: starts the draws of networks and runs again; equal seeds give equal episodes.
        `options={"set": {"links.up.rate_mbps": 2}}` changes the scenario of the episode, by keys
        as in `Scenario.with_`. Raises `ScenarioError` for a key that is not possible.

        >>> import anabranch.gym
        >>> env = anabranch.gym.RateControlEnv(scenario="steady")
        >>> _, info = env.reset(seed=3, options={"set": {"links.up.rate_mbps": 2}})
        >>> env.step(env.action_space.sample())[4]["capacity_bps"]
        array([2000000.])
        """
        super().reset(seed=seed)
        self._core.configure(options)
        self._core.begin([0], [self.np_random])
        engine = self._core.engine
        return self._core.observer.present()[0], {
            "family": str(engine.family[0]),
            "seed": int(engine.seed[0]),
        }

    def step(
        self, action: Any
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Run a step, and return observation, reward, whether it terminated (never), whether it
        is the last one, and info.

        Raises `ValueError` after the last step, and for an action that is not finite.

        >>> import anabranch.gym
        >>> env = anabranch.gym.SchedulingEnv(scenario="uneven", action="path")
        >>> _ = env.reset(seed=1)
        >>> env.step(0)[2:4]
        (False, False)
        """
        _, rewards, is_over, infos = self._core.step(action)
        info = {name: values[0] for name, values in infos.items()}
        observation = self._core.observer.present()[0]
        return observation, float(rewards[0]), False, bool(is_over[0]), info


class RateControlEnv(_Env):
    """Rate control of a flow of video over one path, as `anabranch/RateControl-v0`.

    **Action**: a number from -1 to 1. With `action="rate"` it is the rate, logarithmic from
    `min_bps` to `max_bps` (bit/s). With `action="change"` it multiplies the rate by 2 to the power
    of the number. Packets leave at up to 2.5 times the rate, and the encoder gets the rate less
    headers.

    **Observation**: the sender's knowledge of the last `history` steps, see `observation_features`.
    **Reward**: `reward`, weights of `reward_terms` or a function of a `Step`.
    **Info**: state of the network in the step: `time_s`, `capacity_bps`, `queued_bytes`,
    `delivered_bps`, `packet_delay_ms` and `dropped_packets` of each path; `goodput_bps`,
    `frames_on_time`, `frames_decodable_on_time` (those of them that a viewer sees: the frames that
    they need have arrived), `frames_missed`, `frame_delay_ms` (0 without a frame) and `target_bps`
    of the flow; `family`.

    `scenario`: the split `"train"` or `"held-out"`, names of `families`, a `Scenario`, or a
    function that draws a `Scenario` by a numpy generator. `flow`: the name of its flow, else the
    first of media. `step_ms`: simulated time of a step, 1 to 10000 ms. An episode takes as long as
    its scenario and is then truncated; it never terminates.

    Raises `UnknownName` for an unknown family or flow, `ValueError` for another wrong parameter.

    >>> import anabranch.gym
    >>> anabranch.gym.RateControlEnv(history=1).observation_space.shape
    (12,)
    """

    _task = RATE_CONTROL


class SchedulingEnv(_Env):
    """Path scheduling of a flow of video over several paths, as `anabranch/Scheduling-v0`.

    **Action**: with `action="split"` a weight from 0 to 1 for each path: shares of the bytes that
    are sent for the first time. All zero means equal shares. With `action="path"` the number of
    the path that takes all. Retransmissions follow the session's rule. Packets never take a path
    that the sender holds for dead while another one lives. The flow's controllers choose its rate.

    The other parameters are those of `RateControlEnv`.

    >>> import anabranch.gym
    >>> anabranch.gym.SchedulingEnv(action="path").action_space
    Discrete(2)
    """

    _task = SCHEDULING


class _VectorEnv(VectorEnv[NDArray[np.float32], Any, NDArray[Any]]):
    """Several environments."""

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}
    _task: ClassVar[_Task]

    def __init__(self, num_envs: int = 1, **keys: Any) -> None:
        self._keys = keys
        self._core = _Core(self._task, num_envs, **keys)
        self.num_envs = num_envs
        self.single_observation_space = self._core.observation_space
        self.single_action_space = self._core.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._rngs = [seeding.np_random(None)[0] for _ in range(num_envs)]

    def __getstate__(self) -> dict[str, Any]:
        return _without_core(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._core = _Core(self._task, self.num_envs, **self._keys)

    def reset(
        self,
        *,
        seed: int | list[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode of each environment, and return the observations and infos.

        `seed`: of the first environment, the others have the following ones; or a list. Equal
        seeds give the episodes of single environments, with any number of threads. `options` as
        of a single environment; they hold until the next call.

        >>> import anabranch.gym
        >>> envs = anabranch.gym.RateControlVectorEnv(3, history=2)
        >>> observations, infos = envs.reset(seed=1)
        >>> observations.shape
        (3, 24)
        """
        seeds = seed if isinstance(seed, list) else [seed] * self.num_envs
        if len(seeds) != self.num_envs:
            raise ValueError(f"seed: {self.num_envs} seeds are needed, not {len(seeds)}")
        for slot, own in enumerate(seeds):
            if own is not None:
                offset = 0 if isinstance(seed, list) else slot
                self._rngs[slot] = seeding.np_random(own + offset)[0]
        self._core.configure(options)
        self._core.begin(range(self.num_envs), self._rngs)
        engine = self._core.engine
        infos = {"family": engine.family.copy(), "seed": engine.seed.copy()}
        return self._core.observer.present(), infos

    def step(
        self, actions: Any
    ) -> tuple[NDArray[np.float32], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Run a step of each environment. Where it was the last one, begin an episode.

        The observation is then that of the new episode. `infos["final_obs"]` has the last one of
        the old episode where `infos["_final_obs"]` is true. The other infos are those of the step.

        >>> import anabranch.gym
        >>> envs = anabranch.gym.RateControlVectorEnv(2)
        >>> _ = envs.reset(seed=1)
        >>> envs.step(envs.action_space.sample())[3].tolist()
        [False, False]
        """
        _, rewards, is_over, infos = self._core.step(actions)
        observations = self._core.observer.present()
        if is_over.any():
            final = np.full(self.num_envs, None, dtype=object)
            for slot in np.flatnonzero(is_over):
                final[slot] = observations[slot]
            infos = {**infos, "final_obs": final, "_final_obs": is_over.copy()}
            self._core.begin(np.flatnonzero(is_over).tolist(), self._rngs)
            observations = self._core.observer.present()
        return observations, rewards, np.zeros_like(is_over), is_over, infos


class RateControlVectorEnv(_VectorEnv):
    """Several environments as `RateControlEnv`, stepped together on threads of Rust.

    `num_envs`: their number. `threads`: number of threads, 0 for one per core; it does not change
    any number. The other parameters are those of `RateControlEnv`. An episode that is over begins
    again in the same step (`AutoresetMode.SAME_STEP`).

    >>> import gymnasium
    >>> import anabranch.gym
    >>> envs = gymnasium.make_vec("anabranch/RateControl-v0", num_envs=4)
    >>> envs.num_envs
    4
    """

    _task = RATE_CONTROL


class SchedulingVectorEnv(_VectorEnv):
    """Several environments as `SchedulingEnv`, stepped together on threads of Rust.

    The parameters are those of `RateControlVectorEnv` and `SchedulingEnv`.

    >>> import gymnasium
    >>> import anabranch.gym
    >>> gymnasium.make_vec("anabranch/Scheduling-v0", num_envs=2).single_action_space.shape
    (2,)
    """

    _task = SCHEDULING


def families() -> Table:
    """Return the networks that environments draw: a row for each family.

    Columns: `environment`, `family`, `split` ("train" or "held-out") and `meaning`.

    >>> import anabranch.gym
    >>> table = anabranch.gym.families().where(environment="RateControl", split="held-out")
    >>> table["family"].tolist()
    ['drop', 'fading', 'deep-queue', 'download', 'outage']
    """
    all_of = [("RateControl", family) for family in ONE_PATH]
    all_of += [("Scheduling", family) for family in TWO_PATHS]
    return Table.from_columns(
        {
            "environment": [environment for environment, _ in all_of],
            "family": [family.name for _, family in all_of],
            "split": [family.split for _, family in all_of],
            "meaning": [family.summary for _, family in all_of],
        }
    )


def observation_features() -> Table:
    """Return the numbers of an observation of one path and step, in their order.

    Columns: `feature`, `unit`, `low` and `high` (bounds, to which numbers are clipped) and
    `meaning`. The numbers of several paths follow each other, those of earlier steps come first.
    All come from the sender's own packets and the receiver's reports.

    >>> import anabranch.gym
    >>> anabranch.gym.observation_features()["feature"].tolist()[:4]
    ['decision', 'bandwidth', 'sent', 'acked']
    """
    names = ("name", "unit", "low", "high", "meaning")
    columns = {name: [getattr(feature, name) for feature in PATH_FEATURES] for name in names}
    return Table.from_columns({"feature": columns.pop("name"), **columns})


def reward_terms() -> Table:
    """Return the terms of the usual reward: `term`, `weight`, `unit` and `meaning`.

    A frame counts in the step in which its outcome becomes known, and stands for the time since
    the frame before. So the terms are means over time of video, and a source whose frames are
    lost, late or small earns less. Frames that are captured within a deadline after the last step
    count in it: its action stays in force.

    >>> import anabranch.gym
    >>> anabranch.gym.reward_terms()["term"].tolist()
    ['quality', 'delay', 'missed', 'change']
    """
    return Table.from_columns(
        {
            "term": list(WEIGHTS),
            "weight": list(WEIGHTS.values()),
            "unit": [TERMS[name][0] for name in WEIGHTS],
            "meaning": [TERMS[name][1] for name in WEIGHTS],
        }
    )


def _register() -> None:
    for name in ("RateControl", "Scheduling"):
        gymnasium.register(
            id=f"anabranch/{name}-v0",
            entry_point=f"anabranch.gym:{name}Env",
            vector_entry_point=f"anabranch.gym:{name}VectorEnv",
        )


_register()
