"""Controllers and schedulers in Python."""

from __future__ import annotations

import math
import pickle
import time
import traceback
from collections.abc import Sequence

import anabranch
import numpy as np
import pytest
from anabranch import (
    AlgorithmError,
    Control,
    Controller,
    ControllerConfig,
    Feedback,
    Packet,
    Path,
    Scheduler,
)
from anabranch.testing import small_scenario, two_path_scenario


class Steady(Controller):
    """Sends at a constant rate."""

    def __init__(self, rate_bps: float = 1e6) -> None:
        self.rate_bps = rate_bps

    def start(self, config: ControllerConfig) -> Control:
        return Control(pacing_bps=self.rate_bps)

    def on_feedback(self, now_s: float, feedback: Feedback) -> Control | None:
        return None


class Aimd(Controller):
    """Adds a packet a round trip, and halves after a loss, at most once a round trip."""

    def start(self, config: ControllerConfig) -> Control:
        self.packet = config.max_packet_bytes
        self.window = float(config.initial_window_packets * self.packet)
        self.halved_s = 0.0
        return self.limits(0.1)

    def on_feedback(self, now_s: float, feedback: Feedback) -> Control:
        rtt_s = feedback.smoothed_rtt_s or 0.1
        if feedback.lost_count and now_s - self.halved_s > rtt_s:
            self.window, self.halved_s = max(2.0 * self.packet, self.window / 2), now_s
        elif feedback.is_window_limited:
            self.window += self.packet * feedback.acked_bytes / self.window
        return self.limits(rtt_s)

    def limits(self, rtt_s: float) -> Control:
        return Control(window_bytes=self.window, target_bps=8 * self.window / rtt_s)


class MinCost(Scheduler):
    """Zhang & Lei's cost, as the registered `min-cost`."""

    name = "my-min-cost"

    def cost(self, packet: Packet, path: Path) -> float:
        return path.transfer_cost_s


class Copies(Scheduler):
    """Sends every packet on every path that takes packets."""

    def choose(self, packets: list[Packet], paths: list[Path]) -> Sequence[Sequence[int] | None]:
        usable = [path.id for path in paths if path.is_usable]
        return [usable or None for _ in packets]


def hashes(scenario: anabranch.Scenario, seeds: int = 2) -> list[str]:
    result = anabranch.run(scenario, seeds=seeds, trace=(), progress=False)
    return [str(text) for text in result.runs["trace_hash"]]


def test_a_constant_rate_is_kept() -> None:
    scenario = small_scenario().with_(
        {"flows.0.controller": Steady(rate_bps=8e5), "flows.0.padding": "always"}
    )
    result = anabranch.run(scenario, seeds=1, progress=False)
    assert result.flows["send_rate_bps"][0] == pytest.approx(8e5, rel=0.05)


def test_a_window_of_aimd_fills_the_link() -> None:
    greedy = {"flows": [{"paths": ["only"], "kind": "bulk"}], "duration_s": 20}
    scenario = small_scenario().with_({**greedy, "expect": {}})
    result = anabranch.run(scenario.with_({"flows.0.controller": Aimd}), seeds=1, progress=False)
    assert result.links.where(link="up")["utilisation"][0] > 0.9
    assert result.flows["loss"][0] > 0.0


def test_a_cost_in_python_is_the_cost_in_rust() -> None:
    scenario = two_path_scenario()
    own = scenario.with_({"flows.0.scheduler": MinCost})
    assert hashes(own) == hashes(scenario.with_({"flows.0.scheduler": "min-cost"}))
    assert own.describe()["flows"][0]["scheduler"] == "my-min-cost"


def test_copies_take_every_path() -> None:
    scenario = two_path_scenario().with_({"flows.0.scheduler": Copies()})
    result = anabranch.run(scenario, seeds=1, progress=False)
    assert result.flows["copies"][0] > 0.3
    assert result.reasons.where(reason="duplicate")["packets"].sum() > 100


def test_runs_of_one_seed_are_equal_and_instances_are_not_shared() -> None:
    for algorithm in (Aimd, Aimd()):
        scenario = two_path_scenario().with_({"flows.0.controller": algorithm})
        assert hashes(scenario, 3) == hashes(scenario, 3)


def test_names_of_files_may_be_algorithms() -> None:
    text = small_scenario().to_toml().replace("[[flows]]", '[[flows]]\ncontroller = "mine"')
    with pytest.raises(anabranch.ScenarioError, match="mine"):
        anabranch.Scenario.from_toml(text)
    scenario = anabranch.Scenario.from_toml(text, algorithms={"mine": Steady})
    assert anabranch.run(scenario, seeds=1).flows["controller"].tolist() == ["mine"]


def test_scenarios_with_algorithms_are_pickled() -> None:
    scenario = small_scenario().with_({"flows.0.controller": Aimd})
    assert hashes(pickle.loads(pickle.dumps(scenario))) == hashes(scenario)


class Failing(Steady):
    """Divides by zero after two seconds."""

    def on_feedback(self, now_s: float, feedback: Feedback) -> Control | None:
        if now_s > 2.0:
            return Control(pacing_bps=1 / 0)
        return None


def test_an_exception_ends_the_runs_with_traceback_seed_and_time() -> None:
    scenario = small_scenario().with_({"flows.0.controller": Failing, "duration": "100 h"})
    began_at = time.monotonic()
    with pytest.raises(AlgorithmError) as caught:
        anabranch.run(scenario, seeds=[7], progress=False)
    assert time.monotonic() - began_at < 10
    error = caught.value
    assert (error.method, error.seed) == ("Failing.on_feedback", 7)
    assert 2.0 < error.time_s < 2.5
    assert isinstance(error.__cause__, ZeroDivisionError)
    shown = "".join(traceback.format_exception(error))
    assert "return Control(pacing_bps=1 / 0)" in shown and "seed 7" in shown
    copied = pickle.loads(pickle.dumps(error))
    assert (copied.seed, copied.time_s) == (error.seed, error.time_s)


class Answers(Controller):
    """Answers with something else."""

    answer: object = None

    def on_feedback(self, now_s: float, feedback: Feedback) -> Control | None:
        return self.answer  # type: ignore[return-value]


def test_an_answer_that_is_no_control_is_refused() -> None:
    controller = Answers()
    controller.answer = 1e6
    scenario = small_scenario().with_({"flows.0.controller": controller})
    with pytest.raises(AlgorithmError, match="expected a Control or None, not <class 'float'>"):
        anabranch.run(scenario, seeds=1)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
@pytest.mark.parametrize("name", ["window_bytes", "pacing_bps", "target_bps", "padding_bps"])
def test_a_control_holds_only_finite_numbers(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name if name != "pacing_bps" else "_bps"):
        Control(**{"target_bps": 1e6, name: value})
    with pytest.raises(ValueError, match="target_bps or pacing_bps"):
        Control(window_bytes=1_000)


class Strange(Scheduler):
    """Chooses what it is told to."""

    answer: object = None

    def choose(self, packets: list[Packet], paths: list[Path]) -> Sequence[int]:
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "a list"),
        ([], "0 entries"),
        ([9] * 100, "entries|no path"),
        (["x"] * 8, "entries|expected"),
    ],
)
def test_choices_that_are_none_are_refused(answer: object, message: str) -> None:
    scheduler = Strange()
    scheduler.answer = answer
    scenario = two_path_scenario().with_({"flows.0.scheduler": scheduler})
    with pytest.raises(AlgorithmError, match=message):
        anabranch.run(scenario, seeds=1)


def test_names_of_registered_algorithms_and_twice_the_same_are_refused() -> None:
    class Cubic(Steady):
        name = "cubic"

    with pytest.raises(ValueError, match="registered"):
        small_scenario().with_({"flows.0.controller": Cubic})
    with pytest.raises(ValueError, match="two algorithms are called 'Steady'"):
        two_path_scenario().with_({"flow-defaults.controller": Steady(1e6)}).with_(
            {"flow-defaults.controller": Steady(2e6)}
        )


def test_arrays_of_packets_are_numpy() -> None:
    seen: list[float] = []

    class Reads(Steady):
        def on_feedback(self, now_s: float, feedback: Feedback) -> Control | None:
            assert feedback.acked.bytes.dtype == np.float64
            assert feedback.acked.bytes.sum() == feedback.acked_bytes
            assert np.isnan(feedback.lost.rtt_s).all()
            seen.extend(feedback.acked.rtt_s.tolist())
            return None

    anabranch.run(small_scenario().with_({"flows.0.controller": Reads}), seeds=1, progress=False)
    known = np.array(seen)
    # Twice 20 ms of propagation, and the time of a packet of up to 1,500 B at 2 Mbit/s.
    assert 0.040 < np.nanmin(known) < 0.047


def test_the_contract_passes_algorithms_that_keep_it() -> None:
    for controller in (Aimd, Aimd()):
        anabranch.testing.check_controller(controller)
    for scheduler in (MinCost, Sparing, Sparing()):
        anabranch.testing.check_scheduler(scheduler)


class Sparing(Scheduler):
    """Chooses the fastest path of the best kind that there is."""

    def choose(self, packets: list[Packet], paths: list[Path]) -> Sequence[int | None]:
        def rank(path: Path) -> tuple[int, float]:
            kinds = {"active": 1 if path.is_standby else 0, "suspect": 2}
            return kinds[path.state], path.transfer_cost_s

        usable = [path for path in paths if path.is_usable]
        return [min(usable, key=rank).id for _ in packets]


class AnyPath(Scheduler):
    """Takes the first path that may be used, in reserve or suspect."""

    def choose(self, packets: list[Packet], paths: list[Path]) -> Sequence[int | None]:
        return [next(path.id for path in paths if path.is_usable) for _ in packets]


class ByChance(Controller):
    """Draws its rate from chance that no seed repeats."""

    def on_feedback(self, now_s: float, feedback: Feedback) -> Control:
        return Control(pacing_bps=float(np.random.default_rng().uniform(1e5, 2e6)))


class Shrinks(Controller):
    """Halves its rate after a timeout, and never raises it."""

    def start(self, config: ControllerConfig) -> Control:
        self.rate = 2e6
        return Control(pacing_bps=self.rate)

    def on_feedback(self, now_s: float, feedback: Feedback) -> Control | None:
        return None

    def on_timeout(self, now_s: float, cause: str, bytes_in_flight: int) -> Control:
        self.rate = max(6e4, self.rate / 2)
        return Control(pacing_bps=self.rate)


@pytest.mark.parametrize(
    ("algorithm", "rule"),
    [
        (AnyPath, "in reserve|suspect"),
        (ByChance, "same calls, same answers"),
        (Shrinks, "recovers after a blackout"),
    ],
)
def test_the_contract_names_the_rule_that_is_broken(
    algorithm: type[Controller] | type[Scheduler], rule: str
) -> None:
    with pytest.raises(anabranch.testing.ContractError, match=rule):
        if issubclass(algorithm, Controller):
            anabranch.testing.check_controller(algorithm)
        else:
            anabranch.testing.check_scheduler(algorithm)


def test_a_callback_costs_less_than_a_bound() -> None:
    """docs/python.md shows the cost of a callback; this bound is ten times as high."""
    calls = 0

    class Counts(Steady):
        def on_feedback(self, now_s: float, feedback: Feedback) -> Control | None:
            nonlocal calls
            calls += 1
            return None

    fixed = {
        "flows.0.fixed-rate": "1 Mbit/s",
        "duration_s": 200,
        "flows.0.feedback": "every packet",
    }
    times = []
    for controller in ("fixed", Counts):
        scenario = small_scenario().with_({**fixed, "flows.0.controller": controller})
        best = math.inf
        for _ in range(3):
            began_at, calls = time.process_time(), 0
            anabranch.run(scenario, seeds=1, trace=(), progress=False)
            best = min(best, time.process_time() - began_at)
        times.append(best)
    assert calls > 5_000
    assert (times[1] - times[0]) / calls < 5e-6
