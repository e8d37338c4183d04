"""A reference policy for `anabranch/RateControl-v0`, trained by PPO, and its comparison.

    pip install './python[ppo]'
    python python/examples/rate_control_ppo.py train --minutes 20
    python python/examples/rate_control_ppo.py table

`train` trains on the split "train" with stable-baselines3, and writes the weights beside this file.
`table` needs the extra `rl` alone. It plays the policy, a constant rate and the package's own
controllers on the same episodes of the split "held-out", and prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

import anabranch
import anabranch.gym

ENVIRONMENT = "anabranch/RateControl-v0"
WEIGHTS = Path(__file__).with_suffix(".npz")
#: Parameters of the environment that the policy was trained for.
KEYS: dict[str, Any] = {"action": "change", "history": 4}
#: Controllers of the comparison.
CONTROLLERS = ("live-bbr", "gcc", "scream")
#: Columns of the table: their heading, factor and format.
COLUMNS = {
    "reward": ("reward per step", 1.0, "{:.3f}"),
    "goodput_bps": ("goodput, kbit/s", 1e-3, "{:.0f}"),
    "frames_on_time": ("frames on time, %", 100.0, "{:.2f}"),
    "frame_delay_ms": ("frame delay, ms", 1.0, "{:.0f}"),
    "packet_loss": ("packet loss, %", 100.0, "{:.2f}"),
}


class Perceptron:
    """A trained policy in numpy: two hidden layers of tanh, and the mean of its actions."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as arrays:
            self.layers = [(arrays[f"w{index}"], arrays[f"b{index}"]) for index in range(3)]

    def __call__(self, observations: NDArray[np.float32]) -> NDArray[np.float32]:
        (first, second, last) = self.layers
        hidden = np.tanh(observations @ first[0].T + first[1])
        hidden = np.tanh(hidden @ second[0].T + second[1])
        return np.clip(hidden @ last[0].T + last[1], -1.0, 1.0)


def constant(observations: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the actions of a sender that stays at its first rate, 300 kbit/s: the control."""
    return np.zeros((len(observations), 1), dtype=np.float32)


def save(model: Any, path: Path) -> None:
    """Write the weights of the policy, without those of the value function."""
    state = model.policy.state_dict()
    names = ["mlp_extractor.policy_net.0", "mlp_extractor.policy_net.2", "action_net"]
    arrays = {}
    for index, name in enumerate(names):
        arrays[f"w{index}"] = state[f"{name}.weight"].cpu().numpy()
        arrays[f"b{index}"] = state[f"{name}.bias"].cpu().numpy()
    np.savez_compressed(path, **arrays)


def train(minutes: float, steps: int, seed: int, threads: int, path: Path) -> None:
    """Train for this wall time, or this number of steps."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback

    torch.set_num_threads(threads)
    envs = gymnasium.make_vec(ENVIRONMENT, num_envs=32, threads=threads, **KEYS)
    began_at = time.monotonic()

    def left() -> float:
        """Return the part of the time that is left."""
        return 1.0 - (time.monotonic() - began_at) / (60.0 * minutes)

    class Limit(BaseCallback):
        """Ends the training after its time, and prints the mean reward of every tenth rollout."""

        rewards: ClassVar[list[float]] = []

        def _on_step(self) -> bool:
            return left() > 0.0

        def _on_rollout_end(self) -> None:
            self.rewards.append(float(self.model.rollout_buffer.rewards.mean()))
            if len(self.rewards) % 10 == 0:
                mean, cpu_s = np.mean(self.rewards[-10:]), sum(os.times()[:2])
                print(f"{self.num_timesteps} steps, {cpu_s:.0f} CPU-s: reward {mean:.4f}")

    model = PPO(
        "MlpPolicy",
        anabranch.gym.stable_baselines_env(envs),
        n_steps=64,
        batch_size=256,
        n_epochs=10,
        # Two seconds: a queue that fills shows within one.
        gamma=0.95,
        gae_lambda=0.9,
        learning_rate=lambda _: 1e-4 + 9e-4 * max(left(), 0.0),
        ent_coef=0.0,
        policy_kwargs={"net_arch": [64, 64], "log_std_init": -1.0},
        seed=seed,
        device="cpu",
    )
    model.learn(steps, callback=Limit())
    save(model, path)
    wall_s, cpu_s = time.monotonic() - began_at, sum(os.times()[:2])
    print(f"{model.num_timesteps} steps in {wall_s:.0f} s, {cpu_s:.0f} CPU-s; weights in {path}")


def table(episodes: int, path: Path, split: str) -> str:
    """Return the comparison in Markdown: each family of a split, and all together."""
    policies: dict[str, Any] = {"ppo": Perceptron(path), "constant": constant}
    policies.update({name: name for name in CONTROLLERS})
    families = anabranch.gym.families().where(environment="RateControl", split=split)
    lines = [
        f"| family | policy | {' | '.join(head for head, _, _ in COLUMNS.values())} |",
        "|---" * (len(COLUMNS) + 2) + "|",
    ]
    rows: dict[str, list[NDArray[np.float64]]] = {name: [] for name in policies}
    for family in families["family"]:
        results = anabranch.gym.evaluate(
            ENVIRONMENT, policies, scenario=str(family), episodes=episodes, **KEYS
        )
        for name in policies:
            of_policy = results.where(policy=name)
            means = np.array([of_policy[column].mean() for column in COLUMNS])
            rows[name].append(means)
            lines.append(row(str(family), name, means))
    lines += [row("all", name, np.mean(means, axis=0)) for name, means in rows.items()]
    return "\n".join(lines)


def row(family: str, policy: str, means: NDArray[np.float64]) -> str:
    """Return a line of the table."""
    cells = [
        form.format(factor * mean)
        for (_, factor, form), mean in zip(COLUMNS.values(), means, strict=True)
    ]
    return f"| {family} | {policy} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    of_train = commands.add_parser("train", help="train and write the weights")
    of_train.add_argument("--minutes", type=float, default=20.0)
    of_train.add_argument("--steps", type=int, default=100_000_000)
    of_train.add_argument("--seed", type=int, default=1)
    of_train.add_argument("--threads", type=int, default=1)
    of_table = commands.add_parser("table", help="compare on held-out networks")
    of_table.add_argument("--episodes", type=int, default=40, help="of each family")
    of_table.add_argument("--split", default="held-out", choices=["train", "held-out"])
    for command in (of_train, of_table):
        command.add_argument("--weights", type=Path, default=WEIGHTS)
    options = parser.parse_args()
    if options.command == "train":
        train(options.minutes, options.steps, options.seed, options.threads, options.weights)
    else:
        print(table(options.episodes, options.weights, options.split))


if __name__ == "__main__":
    main()
