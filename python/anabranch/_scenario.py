"""Scenarios: a network, flows over it, and expectations of them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import _native, _toml
from ._algorithms import Controller, Scheduler, maker_of, name_of
from ._drawing import topology_svg

#: File name of a scenario that no file holds, in messages.
_NO_FILE = "scenario.toml"


class Scenario:
    """A scenario: a network, flows over it, and expectations of the results.

    `Scenario(dict)` takes the keys of scenario files. Quantities are texts (`"2 Mbit/s"`), or
    numbers whose keys end in their unit: `rate_bps`, `rate_kbps`, `rate_mbps`, `delay_us`,
    `delay_ms`, `duration_s`, `queue_bytes`, `queue_kb`, `queue_packets`, `loss_percent`. A
    controller or scheduler may be a class or an instance, see `Controller` and `Scheduler`.
    `base_dir` is the folder of the files that it names (traces, a base), else the present one.

    A scenario does not change: `with_` returns a copy. It is checked when it is made.

    Raises `ScenarioError` for a mistake, with its line, key and the nearest known name.

    >>> import anabranch
    >>> scenario = anabranch.Scenario({
    ...     "duration_s": 5,
    ...     "links": {"up": {"rate_mbps": 2, "delay_ms": 20}, "down": {"delay_ms": 20}},
    ...     "routes": {"only": {"forward": ["up"], "reverse": ["down"]}},
    ...     "flows": [{"paths": ["only"]}],
    ... })
    >>> scenario.duration_s, scenario.link_names, scenario.flow_names
    (5.0, ['down', 'up'], ['flow'])
    """

    __slots__ = ("_algorithms", "_described", "_file", "_made", "_overrides", "_text")

    def __init__(
        self, table: Mapping[str, Any], *, base_dir: str | os.PathLike[str] | None = None
    ) -> None:
        algorithms: dict[str, Any] = {}
        text = _toml.dumps(_named(table, algorithms))
        file = _NO_FILE if base_dir is None else str(Path(base_dir) / _NO_FILE)
        self._set(file, text, (), algorithms)

    def _set(
        self, file: str, text: str, overrides: tuple[str, ...], algorithms: dict[str, Any]
    ) -> None:
        self._file, self._text, self._overrides = file, text, overrides
        self._algorithms = algorithms
        kinds = (Controller, Scheduler)
        own: list[list[tuple[str, Any]]] = [
            [(name, maker_of(value)) for name, value in algorithms.items() if _is_a(value, kind)]
            for kind in kinds
        ]
        self._made = _native.parse(file, text, list(overrides), own[0], own[1])
        self._described: dict[str, Any] = json.loads(self._made.describe())

    @classmethod
    def _of(
        cls, file: str, text: str, overrides: tuple[str, ...], algorithms: dict[str, Any]
    ) -> Scenario:
        scenario = cls.__new__(cls)
        scenario._set(file, text, overrides, algorithms)
        return scenario

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        algorithms: Mapping[str, Any] | None = None,
    ) -> Scenario:
        """Read a scenario file. Files that it names are looked for beside it.

        `algorithms`: controllers and schedulers in Python by the names that the file uses.
        Raises `ScenarioError`, also for a file that cannot be read.

        >>> import anabranch
        >>> try:
        ...     anabranch.Scenario.load("missing.toml")
        ... except anabranch.ScenarioError as error:
        ...     print(error.file)
        missing.toml
        """
        file = os.fspath(path)
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            from ._errors import ScenarioError

            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ScenarioError(f"{file}: {reason}", file=file) from error
        return cls._of(file, text, (), dict(algorithms or {}))

    @classmethod
    def from_toml(
        cls,
        text: str,
        *,
        base_dir: str | os.PathLike[str] | None = None,
        name: str = "scenario",
        algorithms: Mapping[str, Any] | None = None,
    ) -> Scenario:
        """Read the text of a scenario file, called `name` in messages.

        `base_dir`: folder of the files that it names. `algorithms`: as in `load`.
        Raises `ScenarioError`.

        >>> import anabranch
        >>> text = '''
        ... duration = "5 s"
        ... links = { up = { rate = "2 Mbit/s" }, down = {} }
        ... routes.only = { forward = ["up"], reverse = ["down"] }
        ... flows = [{ paths = ["only"] }]
        ... '''
        >>> anabranch.Scenario.from_toml(text).duration_s
        5.0
        """
        file = f"{name}.toml"
        file = file if base_dir is None else str(Path(base_dir) / file)
        return cls._of(file, text, (), dict(algorithms or {}))

    def with_(self, settings: Mapping[str, Any]) -> Scenario:
        """Return a copy with other values, by keys as on the command line.

        Keys may end in a unit, as in `Scenario`. A value may be a controller or a scheduler: a
        class or an instance. Raises `ScenarioError` for a key or value that is not possible.

        >>> import anabranch
        >>> scenario = anabranch.testing.small_scenario()
        >>> slow = scenario.with_({"links.up.rate_mbps": 1, "flows.0.scheduler": "wrr"})
        >>> slow.describe()["links"][1]["rate_bps"]
        1000000
        """
        algorithms = dict(self._algorithms)
        overrides = list(self._overrides)
        for key, value in settings.items():
            overrides.append(_toml.override(key, _named(value, algorithms)))
        return self._of(self._file, self._text, tuple(overrides), algorithms)

    def to_toml(self) -> str:
        """Return the scenario as one TOML file, without comments.

        Its base and the changes of `with_` are merged into it. Algorithms in Python appear by
        their names.

        >>> import anabranch
        >>> 'rate = "1 Mbit/s"' in anabranch.testing.small_scenario().with_(
        ...     {"links.up.rate": "1 Mbit/s"}).to_toml()
        True
        """
        return _native.merged_toml(self._file, self._text, list(self._overrides))

    def check(self) -> Scenario:
        """Read all files again that the scenario names, and return it.

        Raises `ScenarioError` if one of them is gone or wrong: a scenario is checked when it is
        made, and its files may change later.

        >>> import anabranch
        >>> scenario = anabranch.testing.small_scenario()
        >>> scenario.check() is scenario
        True
        """
        self._of(self._file, self._text, self._overrides, self._algorithms)
        return self

    def describe(self) -> dict[str, Any]:
        """Return names and values of the scenario: links (rates in bit/s, delays in ms), routes,
        flows, `duration_s` and the number of points of its sweep.

        >>> import anabranch
        >>> sorted(anabranch.testing.small_scenario().describe())[:4]
        ['description', 'duration_s', 'expectations', 'flows']
        """
        described: dict[str, Any] = json.loads(self._made.describe())
        return described

    @property
    def name(self) -> str:
        """Name of the file, without folder and ending.

        >>> import anabranch
        >>> anabranch.testing.small_scenario().name
        'small'
        """
        return str(self._described["name"])

    @property
    def title(self) -> str:
        """Title of the scenario, or its name.

        >>> import anabranch
        >>> anabranch.testing.small_scenario().title
        'A camera behind a slow uplink'
        """
        return str(self._described["title"])

    @property
    def duration_s(self) -> float:
        """Simulated duration of a run, in seconds.

        >>> import anabranch
        >>> anabranch.testing.small_scenario().duration_s
        5.0
        """
        return float(self._described["duration_s"])

    @property
    def point_count(self) -> int:
        """Number of points of its `[sweep]`; 1 without one.

        >>> import anabranch
        >>> anabranch.testing.small_scenario().point_count
        1
        """
        return int(self._described["points"])

    @property
    def points(self) -> list[dict[str, float | str]]:
        """Settings of each point of its sweep: numbers with the unit in the name, or texts.

        >>> import anabranch
        >>> small = anabranch.testing.small_scenario()
        >>> swept = small.with_({"sweep": {"links.up.rate_mbps": [1, 2]}})
        >>> swept.points
        [{'links.up.rate_bps': 1000000.0}, {'links.up.rate_bps': 2000000.0}]
        """
        points: list[dict[str, float | str]] = []
        for settings in self._made.point_settings():
            point: dict[str, float | str] = {}
            for name, number, text in settings:
                point[name] = number if number is not None else str(text)
            points.append(point)
        return points

    @property
    def link_names(self) -> list[str]:
        """Names of the links, sorted.

        >>> import anabranch
        >>> anabranch.testing.small_scenario().link_names
        ['down', 'up']
        """
        return [link["name"] for link in self._described["links"]]

    @property
    def flow_names(self) -> list[str]:
        """Names of the flows, in the order of the file.

        >>> import anabranch
        >>> anabranch.testing.small_scenario().flow_names
        ['camera']
        """
        return [flow["name"] for flow in self._described["flows"]]

    @property
    def algorithms(self) -> dict[str, Any]:
        """Controllers and schedulers in Python by name: classes or instances.

        >>> import anabranch
        >>> anabranch.testing.small_scenario().algorithms
        {}
        """
        return dict(self._algorithms)

    def _at_absolute_path(self) -> Scenario:
        """Return the scenario of a file whose path holds in any working directory."""
        file = os.path.abspath(self._file)
        return self._of(file, self._text, self._overrides, self._algorithms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scenario) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self._file, self._text, self._overrides))

    def _key(self) -> tuple[Any, ...]:
        return (self._file, self._text, self._overrides, self._algorithms)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Scenario._of, self._key())

    def __repr__(self) -> str:
        flows = len(self._described["flows"])
        return f"<Scenario {self.name!r}: {flows} flows, {self.duration_s:g} s>"

    def _repr_html_(self) -> str:
        return topology_svg(self._described)


def _is_a(value: Any, kind: type) -> bool:
    return isinstance(value, kind) or (isinstance(value, type) and issubclass(value, kind))


def _named(value: Any, algorithms: dict[str, Any]) -> Any:
    """Return a value with names in the place of algorithms, which are noted."""
    if _is_a(value, Controller) or _is_a(value, Scheduler):
        name = name_of(value)
        known = algorithms.get(name)
        if known is not None and known is not value:
            raise ValueError(f"two algorithms are called {name!r}: give one of them another `name`")
        algorithms[name] = value
        return name
    if isinstance(value, Mapping):
        return {key: _named(entry, algorithms) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_named(entry, algorithms) for entry in value]
    return value
