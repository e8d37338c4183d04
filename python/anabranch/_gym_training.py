"""The environments for stable-baselines3, with the extra `ppo`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._extras import load

if TYPE_CHECKING:
    from .gym import RateControlVectorEnv, SchedulingVectorEnv


def stable_baselines_env(envs: RateControlVectorEnv | SchedulingVectorEnv) -> Any:
    """Return a vector of environments as a `VecEnv` of stable-baselines3, with the extra `ppo`.

    `stable_baselines3.PPO("MlpPolicy", stable_baselines_env(envs))` then trains on it. Episodes
    that are over begin again; `infos` have `terminal_observation` and `TimeLimit.truncated`, and
    else nothing, since dictionaries for each step would halve the speed.

    Raises `MissingExtra` without stable-baselines3.

    >>> import anabranch.gym
    >>> envs = anabranch.gym.RateControlVectorEnv(2)
    >>> try:
    ...     count = anabranch.gym.stable_baselines_env(envs).num_envs
    ... except anabranch.MissingExtra as error:
    ...     count = {"ppo": 2}[error.extra]
    >>> count
    2
    """
    base: Any = load("stable_baselines3").common.vec_env.VecEnv

    class StableBaselinesEnv(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)
            self._actions: Any = None

        def reset(self) -> Any:
            # Seeds hold for one reset; later ones go on with the draws.
            seeds = list(self._seeds)
            self._reset_seeds()
            return envs.reset(seed=seeds)[0]

        def step_async(self, actions: Any) -> None:
            self._actions = actions

        def step_wait(self) -> Any:
            observations, rewards, _, is_over, infos = envs.step(self._actions)
            of_env: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
            for slot in np.flatnonzero(is_over):
                final = infos["final_obs"][slot]
                of_env[slot] = {"terminal_observation": final, "TimeLimit.truncated": True}
            return observations, rewards, is_over, of_env

        def close(self) -> None:
            envs.close()

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return [getattr(envs, attr_name, None) for _ in self._get_indices(indices)]

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            raise AttributeError(f"{attr_name}: the environments share their attributes")

        def env_method(self, method_name: str, *args: Any, **kwargs: Any) -> list[Any]:
            raise AttributeError(f"{method_name}: the environments have no methods of their own")

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False for _ in self._get_indices(indices)]

    return StableBaselinesEnv()
