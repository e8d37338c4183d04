"""Congestion controllers and schedulers written in Python."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from . import _native
from ._native import Control, ControllerConfig, Feedback, Packet, Packets, Path

__all__ = [
    "Control",
    "Controller",
    "ControllerConfig",
    "Feedback",
    "Packet",
    "Packets",
    "Path",
    "Scheduler",
]


class Controller:
    """A congestion controller: it decides how fast one path may send.

    Subclass it, and pass the class or an instance where a scenario has the name of a controller.
    Each path, at either end of a session, gets an instance of its own: of a class `cls()`, of an
    instance a deep copy. `name`
    is the name in results and messages; the class's name if it is empty.

    A method that returns None keeps the present limits. An exception ends all runs with an
    `AlgorithmError`. A controller must not use chance other than that of `config.seed`: otherwise
    two runs of one seed differ.

    >>> import anabranch
    >>> class Steady(anabranch.Controller):
    ...     def on_feedback(self, now_s, feedback):
    ...         return anabranch.Control(pacing_bps=1e6)
    >>> scenario = anabranch.testing.small_scenario().with_({"flows.0.controller": Steady})
    >>> anabranch.run(scenario, seeds=1).flows["controller"].tolist()
    ['Steady']
    """

    #: Name in results and messages; empty: the name of the class.
    name: str = ""

    def start(self, config: ControllerConfig) -> Control | None:
        """Return the limits before anything is known; None: paced at `config.initial_rate_bps`.

        >>> import anabranch
        >>> anabranch.Controller().start(None) is None
        True
        """
        return None

    def on_feedback(self, now_s: float, feedback: Feedback) -> Control | None:
        """Return the limits after a report of the receiver at `now_s` simulated seconds.

        >>> import anabranch
        >>> anabranch.Controller().on_feedback(1.0, None)
        Traceback (most recent call last):
        ...
        NotImplementedError: Controller needs a method on_feedback
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method on_feedback")

    def on_sent(self, now_s: float, bytes: int, bytes_in_flight: int) -> Control | None:
        """Return the limits after a packet of `bytes` has left. Called only if it is overridden.

        >>> import anabranch
        >>> anabranch.Controller().on_sent(1.0, 1200, 1200) is None
        True
        """
        return None

    def on_timeout(self, now_s: float, cause: str, bytes_in_flight: int) -> Control | None:
        """Return the limits after a timeout: `retransmission` of a stream, or `silence` of a path.

        `bytes_in_flight`: bytes that were in flight before.

        >>> import anabranch
        >>> anabranch.Controller().on_timeout(1.0, "silence", 0) is None
        True
        """
        return None

    @property
    def _hears_sent(self) -> bool:
        return type(self).on_sent is not Controller.on_sent


class Scheduler:
    """A packet scheduler: it decides which packet takes which path.

    Subclass it with `cost` or `choose`, and pass the class or an instance where a scenario has the
    name of a scheduler. Each session gets an instance of its own, as in `Controller`.
    Retransmissions take the path that delivers first, by the session's own rule.

    >>> import anabranch
    >>> class Nearest(anabranch.Scheduler):
    ...     def cost(self, packet, path):
    ...         return path.smoothed_rtt_s or 0.0
    >>> scenario = anabranch.testing.small_scenario().with_({"flows.0.scheduler": Nearest})
    >>> anabranch.run(scenario, seeds=1).flows["scheduler"].tolist()
    ['Nearest']
    """

    #: Name in results and messages; empty: the name of the class.
    name: str = ""

    def cost(self, packet: Packet, path: Path) -> float:
        """Return the cost of a packet on a path, in seconds; the cheapest path gets the packet.

        Only the order of costs matters, except that a user's `weight` of a path divides them. With
        a single path, no cost is asked for. From 0 to a year.

        >>> import anabranch
        >>> anabranch.Scheduler().cost(None, None)
        Traceback (most recent call last):
        ...
        NotImplementedError: Scheduler needs a method cost or choose
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method cost or choose")

    def choose(
        self, packets: list[Packet], paths: list[Path]
    ) -> Sequence[int | Sequence[int] | None]:
        """Return an entry for each packet: a path's `id`, several for copies, None to hold it.

        A packet that is held is offered again with the next frame, report or change of a path.

        >>> import anabranch
        >>> anabranch.Scheduler().choose([], [])
        Traceback (most recent call last):
        ...
        NotImplementedError: Scheduler needs a method cost or choose
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method cost or choose")

    @property
    def _has_choice(self) -> bool:
        return type(self).choose is not Scheduler.choose


def name_of(algorithm: Any) -> str:
    """Return the name of a class or an instance."""
    kind = algorithm if isinstance(algorithm, type) else type(algorithm)
    name = str(getattr(algorithm, "name", "") or kind.__name__)
    registered = [*_names(_native.controllers()), *_names(_native.schedulers())]
    if name in registered:
        raise ValueError(f"{name!r} is the name of a registered algorithm: choose another `name`")
    return name


def _names(table: _native.NativeTable) -> list[str]:
    return table.column("name")[2] or []


def maker_of(algorithm: Any) -> Callable[[], Any]:
    """Return a function that makes an instance: of a class, or a copy of an instance."""
    if isinstance(algorithm, type):
        return algorithm
    return partial(copy.deepcopy, algorithm)
