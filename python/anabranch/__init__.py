"""The laboratory of Anabranch: scenarios, runs, tables and algorithms.

>>> import anabranch
>>> result = anabranch.run(anabranch.testing.small_scenario(), seeds=2)
>>> len(result.flows)
2
"""

from . import testing, traces
from ._algorithms import (
    Control,
    Controller,
    ControllerConfig,
    Feedback,
    Packet,
    Packets,
    Path,
    Scheduler,
)
from ._compare import Comparison, compare
from ._contest import Contest, contest
from ._emulate import Emulation, emulate
from ._errors import (
    AlgorithmError,
    AnabranchError,
    EmulationError,
    LogError,
    MissingExtra,
    ProgramNotFound,
    RunError,
    ScenarioError,
    TraceError,
    TraceWarning,
    UnknownName,
    VersionError,
)
from ._names import claims, columns, controllers, metrics, schedulers
from ._native import __version__
from ._papers import Findings, FrameDelays, frame_delay_bound, reproduce
from ._qlog import read_qlog
from ._result import Result, concat
from ._run import run
from ._scenario import Scenario
from ._stats import read_stats
from ._sweep_result import SweepResult
from ._table import Table
from .sweep import Sweep
from .traces import DelayTrace, Trace

__all__ = [
    "AlgorithmError",
    "AnabranchError",
    "Comparison",
    "Contest",
    "Control",
    "Controller",
    "ControllerConfig",
    "DelayTrace",
    "Emulation",
    "EmulationError",
    "Feedback",
    "Findings",
    "FrameDelays",
    "LogError",
    "MissingExtra",
    "Packet",
    "Packets",
    "Path",
    "ProgramNotFound",
    "Result",
    "RunError",
    "Scenario",
    "ScenarioError",
    "Scheduler",
    "Sweep",
    "SweepResult",
    "Table",
    "Trace",
    "TraceError",
    "TraceWarning",
    "UnknownName",
    "VersionError",
    "__version__",
    "claims",
    "columns",
    "compare",
    "concat",
    "contest",
    "controllers",
    "emulate",
    "frame_delay_bound",
    "metrics",
    "read_qlog",
    "read_stats",
    "reproduce",
    "run",
    "schedulers",
    "testing",
    "traces",
]
