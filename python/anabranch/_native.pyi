"""The native module: plain values in, plain values and Arrow tables out."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__version__: str

class NativeTable:
    @staticmethod
    def from_columns(columns: list[tuple[str, str, Any]]) -> NativeTable: ...
    @staticmethod
    def concat(tables: list[NativeTable]) -> NativeTable: ...
    def take(self, rows: list[int]) -> NativeTable: ...
    def names(self) -> list[str]: ...
    def column(self, name: str) -> tuple[str, bytes, list[str] | None]: ...
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def __arrow_c_schema__(self) -> Any: ...

class NativeScenario:
    def describe(self) -> str: ...
    def point_settings(self) -> list[list[tuple[str, float | None, str | None]]]: ...

class NativeRuns:
    tables: dict[str, NativeTable]
    finished: int
    asked: int
    interrupt: BaseException | None

class NativeEpisodes:
    def __init__(self, count: int, steering: str, step_s: float, threads: int) -> None: ...
    def reset(self, slot: int, scenario: NativeScenario, flow: int, seed: int) -> int: ...
    def step(self, decisions: bytes) -> bytes: ...

def episode_numbers() -> tuple[list[str], list[str]]: ...

class Control:
    window_bytes: float | None
    pacing_bps: float | None
    target_bps: float
    padding_bps: float
    def __init__(
        self,
        *,
        window_bytes: float | None = None,
        pacing_bps: float | None = None,
        target_bps: float | None = None,
        padding_bps: float = 0.0,
    ) -> None: ...

class ControllerConfig:
    min_rate_bps: float
    max_rate_bps: float | None
    initial_rate_bps: float
    initial_window_packets: int
    max_packet_bytes: int
    is_media: bool
    seed: int

class Packets:
    number: NDArray[np.float64]
    bytes: NDArray[np.float64]
    sent_s: NDArray[np.float64]
    received_s: NDArray[np.float64]
    rtt_s: NDArray[np.float64]
    def __len__(self) -> int: ...

class Feedback:
    path: int
    acked_count: int
    acked_bytes: int
    lost_count: int
    lost_bytes: int
    spurious_count: int
    smoothed_rtt_s: float | None
    latest_rtt_s: float | None
    min_rtt_s: float | None
    rtt_variation_s: float
    delivery_rate_bps: float | None
    prior_bytes_in_flight: int
    bytes_in_flight: int
    total_delivered_bytes: int
    total_lost_bytes: int
    is_app_limited: bool
    is_window_limited: bool
    ce_count: int
    reported_s: float
    acked: Packets
    lost: Packets

class Packet:
    frame: int
    fragment: int
    fragment_count: int
    bytes: int
    importance: str
    deadline_s: float | None

class Path:
    id: int
    state: str
    is_usable: bool
    is_standby: bool
    weight: float
    smoothed_rtt_s: float | None
    latest_rtt_s: float | None
    min_rtt_s: float | None
    rtt_variation_s: float
    queued_bytes: int
    bytes_in_flight: int
    window_bytes: int | None
    pacing_bps: float | None
    bandwidth_bps: float
    sendable_bytes: int
    loss: float
    transfer_cost_s: float

def parse(
    file: str,
    text: str,
    overrides: list[str],
    controllers: list[tuple[str, Callable[[], Any]]],
    schedulers: list[tuple[str, Callable[[], Any]]],
) -> NativeScenario: ...
def merged_toml(file: str, text: str, overrides: list[str]) -> str: ...
def network_toml(
    file: str, text: str, overrides: list[str]
) -> tuple[str, list[str]]: ...
def schema() -> str: ...
def read_rows(path: str) -> tuple[str, list[str], int, dict[str, NativeTable]]: ...
def run(
    scenario: NativeScenario,
    seeds: list[int],
    threads: int,
    traces: list[str],
    progress: Callable[[float], object] | None,
) -> NativeRuns: ...
def frame_delays(
    scenario: NativeScenario, seeds: list[int], threads: int
) -> tuple[NativeTable, bool]: ...
def claims() -> NativeTable: ...
def reproduce(
    selections: list[str],
    seeds: int,
    swap: str | None,
    swap_scheduler: str | None,
    threads: int,
    cache: str | None,
    progress: Callable[[float], object] | None,
) -> str: ...
def study_seconds(selections: list[str]) -> float: ...
def contest_rows() -> tuple[list[dict[str, str]], float]: ...
def check_controller_steps(name: str, make: Callable[[], Any], cases: int) -> str | None: ...
def check_scheduler_steps(name: str, make: Callable[[], Any], cases: int) -> str | None: ...
def controllers() -> NativeTable: ...
def schedulers() -> NativeTable: ...
def metrics() -> NativeTable: ...
def columns_table() -> NativeTable: ...
def table_names() -> list[str]: ...
def trace_names() -> list[str]: ...
def nearest_name(asked: str, known: list[str]) -> str | None: ...
