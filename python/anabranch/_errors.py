"""Exceptions of the package. All are an `AnabranchError`."""

from __future__ import annotations

import re
from typing import Any


class AnabranchError(Exception):
    """Base of all exceptions of the package.

    >>> import anabranch
    >>> issubclass(anabranch.ScenarioError, anabranch.AnabranchError)
    True
    """


class ScenarioError(AnabranchError, ValueError):
    """A scenario that cannot be run. The message is that of the command line.

    Attributes: `file` (name of the file, or None), `line` (from 1, or None for an override),
    `key` (such as `flows[0].controller`, or None), `known` (names that would be right),
    `suggestion` (the nearest of them, or None). None of them has a unit.

    >>> import anabranch
    >>> try:
    ...     anabranch.Scenario.from_toml("durations = '10 s'")
    ... except anabranch.ScenarioError as error:
    ...     print(error.line, error.key, error.suggestion)
    1 durations duration
    """

    file: str | None
    line: int | None
    key: str | None
    known: list[str]
    suggestion: str | None

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        key: str | None = None,
        known: list[str] | None = None,
        suggestion: str | None = None,
    ) -> None:
        super().__init__(message)
        self.file, self.line, self.key = file, line, key
        self.known, self.suggestion = known or [], suggestion

    def __reduce__(self) -> tuple[Any, ...]:
        state = dict(self.__dict__)
        return (ScenarioError, (str(self),), state)


class UnknownName(AnabranchError, KeyError):
    """A name of a table, column, metric, trace or claim that does not exist.

    Attributes: `known` (the names that exist) and `suggestion` (the nearest, or None).

    >>> import anabranch
    >>> try:
    ...     anabranch.reproduce("S99")
    ... except anabranch.UnknownName as error:
    ...     print("S99" in str(error))
    True
    """

    known: list[str]
    suggestion: str | None

    def __init__(
        self, message: str, known: list[str] | None = None, suggestion: str | None = None
    ) -> None:
        super().__init__(message)
        self.known, self.suggestion = known or [], suggestion

    def __str__(self) -> str:
        return str(self.args[0])


class RunError(AnabranchError, RuntimeError):
    """A run that cannot be made, or that ended in a panic of the simulator.

    >>> import anabranch
    >>> issubclass(anabranch.RunError, RuntimeError)
    True
    """


class AlgorithmError(RunError):
    """An exception of a controller or scheduler in Python, which ended the runs.

    The exception itself, with its traceback, is `__cause__`. Attributes: `method` (such as
    `MyController.on_feedback`), `seed` (of the run) and `time_s` (simulated seconds).

    >>> import anabranch
    >>> issubclass(anabranch.AlgorithmError, anabranch.RunError)
    True
    """

    method: str
    seed: int
    time_s: float

    def __init__(self, message: str, method: str = "", seed: int = 0, time_s: float = 0.0) -> None:
        super().__init__(message)
        self.method, self.seed, self.time_s = method, seed, time_s

    def __reduce__(self) -> tuple[Any, ...]:
        return (AlgorithmError, (str(self), self.method, self.seed, self.time_s))


class MissingExtra(AnabranchError, ImportError):
    """An optional package that a function needs is not installed.

    Attributes: `package` and `extra`: `pip install 'anabranch[EXTRA]'` installs it.

    >>> import anabranch
    >>> issubclass(anabranch.MissingExtra, ImportError)
    True
    """

    package: str
    extra: str

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"{package} is not installed: it comes with the extra {extra!r}, "
            f"pip install 'anabranch[{extra}]'"
        )
        self.package, self.extra = package, extra

    def __reduce__(self) -> tuple[Any, ...]:
        return (MissingExtra, (self.package, self.extra))


class VersionError(AnabranchError, ValueError):
    """Results of different versions of the package that would be mixed.

    Attributes: `versions`, the versions found.

    >>> import anabranch
    >>> issubclass(anabranch.VersionError, ValueError)
    True
    """

    versions: list[str]

    def __init__(self, message: str, versions: list[str] | None = None) -> None:
        super().__init__(message)
        self.versions = versions or []


class TraceError(AnabranchError, ValueError):
    """A trace file that cannot be read.

    Attributes: `file` (its name, or None for data in memory), `line` (from 1, or None) and `offset`
    (of a packet in a capture, in bytes from 0, or None). In data in memory `line` is the number of
    the row.

    >>> import anabranch
    >>> try:
    ...     anabranch.Trace.from_throughput({"time": [0, 1], "mbps": [5, -1]})
    ... except anabranch.TraceError as error:
    ...     print(error.line, error)
    2 row 2: a rate of -1 Mbit/s is negative
    """

    file: str | None
    line: int | None
    offset: int | None

    def __init__(
        self,
        reason: str,
        file: str | None = None,
        line: int | None = None,
        offset: int | None = None,
    ) -> None:
        place = f"row {line}" if file is None else file if line is None else f"{file}:{line}"
        place = place if offset is None else f"{place} at byte {offset}"
        super().__init__(reason if file is None and line is None else f"{place}: {reason}")
        self.file, self.line, self.offset, self._reason = file, line, offset, reason

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._reason, self.file, self.line, self.offset))


class LogError(TraceError):
    """A file of statistics, or a qlog, that cannot be read. Attributes are those of `TraceError`.

    >>> import anabranch, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "send.json")
    ...     _ = path.write_text('{"event": "stats"}\\n')
    ...     try:
    ...         anabranch.read_stats(path)
    ...     except anabranch.LogError as error:
    ...         print(error.line, str(error).split(": ")[-1])
    1 uptime_s is missing
    """


class TraceWarning(UserWarning):
    """A trace or log with gaps, or with bins so long that they hide how the rate varies.

    >>> import anabranch
    >>> issubclass(anabranch.TraceWarning, UserWarning)
    True
    """


class ProgramNotFound(AnabranchError, FileNotFoundError):
    """The program `anabranch` is not installed, or not where it is said to be.

    >>> import anabranch
    >>> try:
    ...     anabranch.emulate(anabranch.testing.small_scenario(), to=7000, program="/none")
    ... except anabranch.ProgramNotFound as error:
    ...     print("cargo build" in str(error))
    True
    """

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the program anabranch was not found: {reason}. A checkout builds it by "
            "`cargo build --release -p anabranch-cli --features emulate`, as "
            "target/release/anabranch. Name it by `program=`, by the environment's ANABRANCH, or "
            "put it on the PATH"
        )
        self._reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return (ProgramNotFound, (self._reason,))


class EmulationError(AnabranchError, RuntimeError):
    """An emulator that did not start, or that has ended; the message has its last lines.

    >>> import anabranch
    >>> issubclass(anabranch.EmulationError, RuntimeError)
    True
    """


_PLACE = re.compile(r"^(?P<file>.*):(?P<line>[0-9]+)( \(base of .*\))?$")
_KNOWN = re.compile(r"known are (?P<names>.*?)(; did you mean \"(?P<near>.*)\"\?)?$", re.S)


def known_and_near(message: str) -> tuple[list[str], str | None]:
    """Return the known names in a message, and the suggested one."""
    found = _KNOWN.search(message)
    if found is None:
        return [], None
    return found["names"].split(", "), found["near"]


def scenario_error(text: str, place: str, key: str, message: str) -> ScenarioError:
    """Return the error of a mistake at a place; the native module calls it."""
    at = _PLACE.match(place)
    known, near = known_and_near(message)
    is_override = place.startswith("--set ")
    return ScenarioError(
        text,
        file=at["file"] if at and not is_override else (None if is_override else place or None),
        line=int(at["line"]) if at and not is_override else None,
        key=key or None,
        known=known,
        suggestion=near,
    )


def unknown_name(message: str) -> UnknownName:
    """Return the error of an unknown name; the native module calls it."""
    known, near = known_and_near(message)
    found = re.search(r"did you mean \"(.*)\"\?$", message)
    return UnknownName(message, known, near or (found[1] if found else None))


def algorithm_error(method: str, seed: int, time_s: float, cause: BaseException) -> AlgorithmError:
    """Return the error of an algorithm that raised `cause`; the native module calls it."""
    text = (
        f"{method} failed at {time_s:.6f} s of the run with seed {seed}: "
        f"{type(cause).__name__}: {cause}"
    )
    return AlgorithmError(text, method, seed, time_s)
