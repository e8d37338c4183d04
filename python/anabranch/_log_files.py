"""Statistics and qlog files of real sessions, read record by record within bounds on memory."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ._errors import LogError, TraceWarning

#: Longest record in bytes: a status of some 5,000 streams. The program's are far shorter.
MAX_RECORD_BYTES = 8 << 20
#: Most records of a file: a qlog of a million packets takes 1 GB of memory.
MAX_RECORDS = 2_000_000
#: First byte of each record of a qlog (RFC 7464).
_SEPARATOR = b"\x1e"

Json = dict[str, Any]


def records(path: str) -> Iterator[tuple[int, Json]]:
    """Yield the line and the object of each record: a line of JSON, with or without RFC 7464.

    A last line without its end was cut off with its program; it is left out with a warning.
    Raises `LogError` for a line that is too long or no object, and for too many records.
    """
    with open(path, "rb") as file:
        for number in range(1, MAX_RECORDS + 2):
            line = file.readline(MAX_RECORD_BYTES + 1)
            if not line:
                return
            if number > MAX_RECORDS:
                raise LogError(f"there are more than {MAX_RECORDS} records", path, number)
            if len(line) > MAX_RECORD_BYTES:
                raise LogError(f"the record is longer than {MAX_RECORD_BYTES} bytes", path, number)
            text = line.removeprefix(_SEPARATOR).strip()
            if not text:
                continue
            try:
                yield number, json_object(text)
            except ValueError as error:
                if line.endswith(b"\n"):
                    raise LogError(str(error), path, number) from None
                warnings.warn(f"{path}:{number}: the last record is cut off", TraceWarning, 4)
                return


def json_object(text: bytes) -> Json:
    """Return an object of JSON, or raise `ValueError` with the reason."""
    try:
        found = json.loads(text.decode("utf-8"), parse_constant=_refuse)
    except RecursionError:
        raise ValueError("the record is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"the record is no JSON: {str(error)[:200]}") from None
    if not isinstance(found, dict):
        raise ValueError("the record is no object of JSON")
    return found


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


class Field:
    """An object of a record, whose fields are checked as they are read."""

    __slots__ = ("_file", "_line", "_object", "_place")

    def __init__(self, value: Any, file: str, line: int, place: str = "") -> None:
        self._object, self._file, self._line, self._place = value, file, line, place
        if not isinstance(value, Mapping):
            raise self._fail("", "is no object")

    def _fail(self, name: str, reason: str) -> LogError:
        place = ".".join(part for part in (self._place, name) if part)
        return LogError(f"{place or 'the record'} {reason}", self._file, self._line)

    def number(self, name: str) -> float:
        """Return a number, or raise `LogError`."""
        value = self.number_or_nan(name)
        if math.isnan(value):
            raise self._fail(name, "is missing")
        return value

    def number_or_nan(self, name: str) -> float:
        """Return a number, or NaN without one. Raises `LogError` for anything else."""
        value = self._object.get(name)
        if value is None:
            return math.nan
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        # The bound is beyond any count of bytes and any time, and exact in a float.
        if not is_number or not abs(value) <= 2.0**63:
            raise self._fail(name, "is no number")
        return float(value)

    def count(self, name: str) -> int:
        """Return a count, 0 without one. Raises `LogError` for anything else."""
        value = self.number_or_nan(name)
        if value < 0 or value >= 2.0**53 or value % 1 > 0:
            raise self._fail(name, "is no count")
        return 0 if math.isnan(value) else int(value)

    def text(self, name: str) -> str | None:
        """Return a text, or None without one. Raises `LogError` for anything else."""
        value = self._object.get(name)
        if value is not None and not isinstance(value, str):
            raise self._fail(name, "is no text")
        return value

    def is_true(self, name: str) -> bool:
        """Return whether the field is true."""
        return self._object.get(name) is True

    def inner(self, name: str) -> Field:
        """Return an object within, an empty one if it is missing."""
        value = self._object.get(name)
        return Field({} if value is None else value, self._file, self._line, self._at(name))

    def each(self, name: str) -> list[Field]:
        """Return the objects of a list, none if it is missing."""
        value = self._object.get(name)
        if value is None:
            return []
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise self._fail(name, "is no list")
        at = self._at(name)
        return [
            Field(entry, self._file, self._line, f"{at}[{number}]")
            for number, entry in enumerate(value)
        ]

    def items(self, name: str) -> list[tuple[str, Field]]:
        """Return the objects of an object, with their keys."""
        inner = self.inner(name)
        return [(str(key), inner.inner(key)) for key in inner._object]

    def _at(self, name: str) -> str:
        return f"{self._place}.{name}" if self._place else name


class Program(NamedTuple):
    """The lines that one program has appended to a file of statistics."""

    lines: list[Field]


def programs(path: str | os.PathLike[str]) -> list[Program]:
    """Return the lines of each program that wrote to a file: its uptime begins again.

    Raises `LogError` for a file without statistics.
    """
    file = os.fspath(path)
    found: list[Program] = []
    last_s = math.inf
    for line, record in records(file):
        fields = Field(record, file, line)
        uptime_s = fields.number("uptime_s")
        if fields.text("event") is None:
            raise LogError("the record has no event: is it a file of --stats?", file, line)
        # Events of other threads may be some milliseconds late.
        if uptime_s < last_s - 1.0:
            found.append(Program([]))
            last_s = -math.inf
        last_s = max(last_s, uptime_s)
        found[-1].lines.append(fields)
    if not any(each.text("event") == "stats" for program in found for each in program.lines):
        raise LogError("the file has no statistics", file)
    return found
