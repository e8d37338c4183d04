"""Environments of reinforcement learning."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import anabranch
import anabranch.gym
from anabranch._gym_families import ONE_PATH, TWO_PATHS

RATE, SCHEDULING = "anabranch/RateControl-v0", "anabranch/Scheduling-v0"

#: One link of 2 Mbit/s, without chance.
PLAIN = anabranch.Scenario(
    {
        "duration_s": 12,
        "links": {
            "up": {"rate_mbps": 2, "delay_ms": 30, "queue_ms": 300},
            "back": {"delay_ms": 20},
        },
        "routes": {"only": {"forward": ["up"], "reverse": ["back"]}},
        "flows": [
            {
                "paths": ["only"],
                "deadline_ms": 400,
                "source": {"kind": "ideal", "fps": 30, "min_kbps": 100, "max_mbps": 5},
            }
        ],
    }
)


@pytest.mark.parametrize(
    ("name", "action"),
    [(RATE, "rate"), (RATE, "change"), (SCHEDULING, "split"), (SCHEDULING, "path")],
)
def test_the_checker_accepts_every_environment(name: str, action: str) -> None:
    env = gymnasium.make(name, action=action, disable_env_checker=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=True)


def played(envs: Any, seed: int, steps: int, action: Any = None) -> list[Any]:
    """Return everything that some steps return, with actions by the seed."""
    rng = np.random.default_rng(seed)
    made: list[Any] = [envs.reset(seed=seed)]
    for _ in range(steps):
        drawn = rng.random((envs.num_envs, *envs.single_action_space.shape)).astype(np.float32)
        made.append(envs.step(drawn if action is None else action))
    return made


def equal(one: Any, other: Any) -> bool:
    """Whether two results are equal in every number."""
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, np.ndarray) and one.dtype == object:
        return equal(one.tolist(), other.tolist())
    return bool(np.array_equal(one, other))


@pytest.mark.parametrize("name", [RATE, SCHEDULING])
def test_equal_seeds_give_equal_episodes_on_any_number_of_threads(name: str) -> None:
    # Long enough that every episode is over once.
    one, two = (
        played(gymnasium.make_vec(name, num_envs=5, threads=threads), 7, 310)
        for threads in (1, 2)
    )
    assert equal(one, two)
    other = played(gymnasium.make_vec(name, num_envs=5), 8, 3)
    assert not equal(one[1:4], other[1:4])
    infos = one[300][4]
    assert infos["_final_obs"].all() and infos["final_obs"][0].shape == one[0][0][0].shape
    assert not one[300][0].any() and one[301][4]["time_s"] == pytest.approx(0.1)


@pytest.mark.parametrize("name", [RATE, SCHEDULING])
def test_environments_of_a_vector_are_single_environments(name: str) -> None:
    envs: Any = gymnasium.make_vec(name, num_envs=3)
    vector = played(envs, 5, 20)
    rng = np.random.default_rng(5)
    actions = [rng.random((3, *envs.single_action_space.shape)) for _ in range(20)]
    for slot in range(3):
        env = gymnasium.make(name)
        observation, info = env.reset(seed=5 + slot)
        assert equal(observation, vector[0][0][slot]) and info["seed"] == vector[0][1]["seed"][slot]
        for action, made in zip(actions, vector[1:], strict=True):
            single = env.step(action[slot].astype(np.float32))
            assert equal(single[0], made[0][slot]) and single[1] == made[1][slot]
            assert equal(single[4], {key: values[slot] for key, values in made[4].items()})


def test_options_set_keys_of_the_scenario_until_the_next_reset() -> None:
    env = gymnasium.make(RATE, scenario=PLAIN)
    for options, rate in (({"set": {"links.up.rate_mbps": 1}}, 1e6), (None, 2e6)):
        env.reset(seed=1, options=options)
        assert env.step(np.array([0.0], dtype=np.float32))[4]["capacity_bps"].tolist() == [rate]
    with pytest.raises(anabranch.ScenarioError, match="links.up.rat"):
        env.reset(options={"set": {"links.up.rat": 1}})
    with pytest.raises(ValueError, match="only 'set' is known"):
        env.reset(options={"sets": {}})


def test_info_has_the_frames_that_a_viewer_sees() -> None:
    # A frame that is lost takes along those that need it, until the next key frame.
    source = {"kind": "gop", "fps": 30, "min_kbps": 300, "max_mbps": 5, "key-interval": "4 s"}
    outage = {"links.up.outages": [{"at": "4.2 s", "for": "900 ms"}]}
    env = gymnasium.make(RATE, scenario=PLAIN.with_({**outage, "flows.0.source": source}))
    env.reset(seed=3)
    totals = {"frames_on_time": 0.0, "frames_decodable_on_time": 0.0, "frames_missed": 0.0}
    is_over = False
    while not is_over:
        *_, is_over, info = env.step(np.array([0.2], dtype=np.float32))
        for name in totals:
            totals[name] += float(info[name])
        assert info["frames_decodable_on_time"] <= info["frames_on_time"]
    assert totals["frames_missed"] > 0
    assert 0 < totals["frames_decodable_on_time"] < totals["frames_on_time"]
    clean = gymnasium.make(RATE, scenario=PLAIN)
    clean.reset(seed=3)
    infos = [clean.step(np.array([-0.5], dtype=np.float32))[4] for _ in range(50)]
    assert sum(each["frames_decodable_on_time"] for each in infos) > 100
    assert all(each["frames_decodable_on_time"] == each["frames_on_time"] for each in infos)


@pytest.mark.parametrize("name", [RATE, SCHEDULING])
def test_environments_pickle_and_go_on_with_the_networks_that_would_follow(name: str) -> None:
    env = gymnasium.make(name, reward={"quality": 1.0}, history=2)
    env.reset(seed=5)
    env.action_space.seed(7)
    action = env.action_space.sample()
    env.step(action)
    for copied in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
        with pytest.raises(ValueError, match="call reset"):
            copied.unwrapped.step(action)
        original = pickle.loads(pickle.dumps(env))
        ends = [
            (each.reset(), each.step(each.action_space.sample())) for each in (original, copied)
        ]
        assert ends[0][0][1] == ends[1][0][1]
        assert np.array_equal(ends[0][1][0], ends[1][1][0]) and ends[0][1][1] == ends[1][1][1]
    envs = gymnasium.make_vec(name, num_envs=3)
    envs.reset(seed=5)
    envs.step(envs.action_space.sample())
    copied = pickle.loads(pickle.dumps(envs))
    assert copied.num_envs == 3
    seeds = [each.reset()[1]["seed"].tolist() for each in (envs, copied)]
    assert seeds[0] == seeds[1]


def test_an_observation_holds_nothing_that_the_sender_has_not_heard() -> None:
    """Networks that differ beyond the first round trip look alike within it."""
    env = gymnasium.make(RATE, scenario=PLAIN)
    seen, hidden = [], []
    for rate_mbps in (0.2, 4):
        far = {"links.back.delay_ms": 200, "links.up.rate_mbps": rate_mbps}
        env.reset(seed=1, options={"set": far})
        steps = [env.step(np.array([0.5], dtype=np.float32)) for _ in range(2)]
        seen.append([step[0] for step in steps])
        hidden.append([step[4]["queued_bytes"] for step in steps])
    assert equal(seen[0], seen[1]) and not equal(hidden[0], hidden[1])


def test_observations_stay_in_their_bounds_and_show_the_newest_step_last() -> None:
    envs = gymnasium.make_vec(RATE, num_envs=8, scenario=["train", "held-out"], history=3)
    made = played(envs, 3, 200)
    for observations, *_ in made:
        assert envs.observation_space.contains(observations)
    width = len(anabranch.gym.observation_features())
    for before, after in zip(made[1:], made[2:], strict=False):
        assert equal(before[0][:, width:], after[0][:, :-width])


def returns(plans: Any, scenario: Any = PLAIN, **keys: Any) -> Any:
    """Return the sum of rewards of open-loop plans (plans, steps) of rates in bit/s, on the same
    episode."""
    rates = np.asarray(plans, dtype=np.float64)
    envs: Any = gymnasium.make_vec(RATE, num_envs=len(rates), scenario=scenario, **keys)
    envs.reset(seed=[1] * len(rates))
    total = np.zeros(len(rates))
    for step in range(rates.shape[1]):
        scaled = 2.0 * np.log(rates[:, step : step + 1] / 1e5) / np.log(50.0) - 1.0
        total += envs.step(scaled)[1]
    return total


def test_a_sender_that_stops_or_pauses_gains_nothing() -> None:
    steady = np.full(120, 1.7e6)
    plans = [steady, np.full(120, 1e5)]
    for on, off in ((1, 1), (5, 5), (10, 2), (20, 20)):
        # As much on average, or at the full rate while it sends.
        for rate in (1.7e6, min(5e6, 1.7e6 * (on + off) / on)):
            plans.append(np.where(np.arange(120) % (on + off) < on, rate, 1e5))
    total = returns(plans)
    assert total[0] > total[1:].max() + 1.0, total


def test_a_queue_filled_before_the_end_gains_nothing() -> None:
    """More than the link carries earns less than just that, in the last steps too."""
    carried = 2.0e6
    lasts, rates = (1, 2, 3, 5, 8, 12, 20), (carried, 2.1e6, 2.4e6, 3e6, 5e6)

    def filled(usual: float, last: int, rate: float) -> Any:
        plan = np.full(120, usual)
        plan[-last:] = rate
        return plan

    for usual in (1.2e6, 1.7e6, carried):
        plans = [filled(usual, last, rate) for last in lasts for rate in rates]
        total = returns(plans).reshape(len(lasts), len(rates))
        assert (total[:, 1:] < total[:, :1]).all(), (usual, total)
    # It pays at no earlier time either.
    early = np.full(120, 1.7e6)
    early[40:45] = 5e6
    assert returns([early])[0] < returns([np.full(120, 1.7e6)])[0]


def test_a_reward_is_weights_or_a_function() -> None:
    terms = anabranch.gym.reward_terms()
    weights = dict(zip(terms["term"], terms["weight"], strict=True))
    rate = np.full((1, 120), 1.5e6)
    usual = returns(rate)
    assert returns(rate, reward=weights) == pytest.approx(usual)
    assert returns(rate, reward={}) == 0.0

    def own(step: anabranch.gym.Step) -> Any:
        assert step.sender["mean_rtt_s"].shape == step.network["capacity_bps"].shape == (1, 1)
        return sum(weight * step.terms[name] for name, weight in weights.items())

    assert returns(rate, reward=own) == pytest.approx(usual)
    with pytest.raises(ValueError, match="finite"):
        returns(rate, reward=lambda step: np.array([np.nan]))
    with pytest.raises(anabranch.UnknownName, match="quality, delay"):
        gymnasium.make(RATE, reward={"speed": 1.0})


def test_families_are_split_and_all_can_be_drawn() -> None:
    for families, name in ((ONE_PATH, RATE), (TWO_PATHS, SCHEDULING)):
        assert {family.split for family in families} == {"train", "held-out"}
        assert len({family.name for family in families}) == len(families)
        for family in families:
            env = gymnasium.make(name, scenario=family.name)
            for seed in range(5):
                assert env.reset(seed=seed)[1]["family"] == family.name
                env.step(env.action_space.sample())
        drawn = {gymnasium.make(name).reset(seed=seed)[1]["family"] for seed in range(40)}
        assert drawn == {family.name for family in families if family.split == "train"}
    with pytest.raises(anabranch.UnknownName, match="did you mean 'held-out'"):
        gymnasium.make(RATE, scenario="heldout")


def test_the_page_has_the_terms_features_and_families() -> None:
    section = (Path(__file__).parents[2] / "docs/python-learning.md").read_text(encoding="utf-8")
    terms = anabranch.gym.reward_terms()
    for term, weight in zip(terms["term"], terms["weight"], strict=True):
        line = next(line for line in section.splitlines() if line.startswith(f"| `{term}` |"))
        assert line.split("|")[3].strip() == f"{weight:g}"
    for feature in anabranch.gym.observation_features()["feature"]:
        assert str(feature).replace("_", " ").replace("acked", "acknowledged") in section
    for family in anabranch.gym.families()["family"]:
        assert f"`{family}`" in section


def test_public_names_are_documented_with_an_example() -> None:
    for name in anabranch.gym.__all__:
        assert ">>>" in (getattr(anabranch.gym, name).__doc__ or ""), name


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="'rate' or 'change'"):
        gymnasium.make(RATE, action="speed")
    with pytest.raises(ValueError, match="2 paths"):
        gymnasium.make(RATE, scenario=anabranch.testing.two_path_scenario()).reset()
    with pytest.raises(anabranch.UnknownName, match="known are flow"):
        gymnasium.make(RATE, scenario=PLAIN, flow="vidio")
    env = anabranch.gym.RateControlEnv(scenario=PLAIN.with_({"duration_s": 0.2}))
    with pytest.raises(ValueError, match="call reset"):
        env.step([0.0])
    env.reset(seed=1)
    assert [env.step([0.0])[3] for _ in range(2)] == [False, True]
    with pytest.raises(ValueError, match="start another"):
        env.step([0.0])


def test_baselines_are_the_controllers_of_runs() -> None:
    def fixed(observations: Any) -> Any:
        return np.zeros((len(observations), 1))

    table = anabranch.gym.evaluate(
        RATE, {"fixed": fixed, "gcc": "gcc", "scream": "scream"}, scenario=PLAIN, episodes=2
    )
    assert table["policy"].tolist() == ["fixed", "fixed", "gcc", "gcc", "scream", "scream"]
    result = anabranch.run(PLAIN.with_({"flows.0.controller": "gcc"}), seeds=[1], trace=())
    # The network has no chance, so that each seed's run is the same but for the last frames.
    own = table.where(policy="gcc")
    assert own["goodput_bps"] == pytest.approx(result.flows["goodput_bps"][0], rel=0.1)
    assert own["frame_delay_ms"] == pytest.approx(
        result.flows["frame_delay_mean_ms"][0], rel=0.1
    )
    gcc, scream = (table.where(policy=name)["reward"].mean() for name in ("gcc", "scream"))
    assert gcc != scream


def answer(code: str) -> str:
    """Return the output of a program in a Python of its own, away from the package's sources."""
    made = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/"
    )
    return made.stdout.strip()


def test_a_missing_extra_is_named_and_the_package_needs_none() -> None:
    code = """
import sys
sys.modules["gymnasium"] = None
import anabranch
try:
    import anabranch.gym
except anabranch.MissingExtra as error:
    print(error)
"""
    assert "pip install 'anabranch[rl]'" in answer(code)
    code = """
import sys, anabranch
print(sorted({name.split(".")[0] for name in sys.modules} & {"gymnasium", "torch"}))
"""
    assert answer(code) == "[]"
    code = """
import sys
sys.modules["stable_baselines3"] = None
import anabranch.gym
try:
    anabranch.gym.stable_baselines_env(anabranch.gym.RateControlVectorEnv(1))
except anabranch.MissingExtra as error:
    print(error)
"""
    assert "pip install 'anabranch[ppo]'" in answer(code)


def test_stable_baselines_trains_on_the_environments() -> None:
    """A smoke test: two updates change the weights."""
    baselines: Any = pytest.importorskip(
        "stable_baselines3", reason="NOT tested: PPO needs the extra 'ppo'"
    )
    envs = gymnasium.make_vec(RATE, num_envs=4, scenario=PLAIN.with_({"duration_s": 2}))
    own = anabranch.gym.stable_baselines_env(envs)  # type: ignore[arg-type]
    model = baselines.PPO("MlpPolicy", own, n_steps=32, batch_size=64, n_epochs=1, seed=1)
    before = [value.clone() for value in model.policy.parameters()]
    model.learn(256)
    pairs = zip(before, model.policy.parameters(), strict=True)
    assert any(bool((old != new).any()) for old, new in pairs)
