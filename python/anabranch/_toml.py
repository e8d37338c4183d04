"""Dictionaries as TOML, with units in the names of keys."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

#: Endings of keys, the unit that each stands for, and the factor to it.
SUFFIXES: dict[str, tuple[str, float]] = {
    "_bps": ("bit/s", 1.0),
    "_kbps": ("bit/s", 1e3),
    "_mbps": ("bit/s", 1e6),
    "_us": ("us", 1.0),
    "_ms": ("ms", 1.0),
    "_s": ("s", 1.0),
    "_bytes": ("B", 1.0),
    "_kb": ("B", 1e3),
    "_packets": ("packets", 1.0),
    "_percent": ("%", 1.0),
}

#: Values that a scenario may have.
Value: TypeAlias = "bool | int | float | str | Sequence[Any] | Mapping[str, Any]"

_BARE = re.compile(r"^[A-Za-z0-9_-]+$")


def quantity(number: float, suffix: str) -> str:
    """Return a number with the unit of a key's ending, such as `2 Mbit/s` or `20 ms`."""
    unit, factor = SUFFIXES[suffix]
    if not math.isfinite(number):
        return f"{number} {unit}"
    value = number * factor
    text = np.format_float_positional(value, trim="-")
    if unit in ("bit/s", "B", "packets"):
        text = str(int(round(value))) if abs(value - round(value)) < 1e-6 else text
    return f"{text} {unit}"


def _is_number(value: object) -> bool:
    is_bool = isinstance(value, (bool, np.bool_))
    return not is_bool and isinstance(value, (int, float, np.integer, np.floating))


def with_unit(key: str, value: Any) -> tuple[str, Any]:
    """Return a key without the unit at its end, and the numbers of its value with it.

    A key without a unit, and a value that is no number and no list of numbers, stay as they are.
    """
    for suffix in SUFFIXES:
        stem = key[: -len(suffix)]
        if not key.endswith(suffix) or not stem or stem.endswith("."):
            continue
        if _is_number(value):
            return stem, quantity(float(value), suffix)
        if isinstance(value, (list, tuple, np.ndarray)) and all(map(_is_number, value)):
            return stem, [quantity(float(number), suffix) for number in value]
    return key, value


def inline(value: Any) -> str:
    """Return a value in TOML, on one line."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        number = float(value)
        if math.isnan(number):
            return "nan"
        if math.isinf(number):
            return "inf" if number > 0 else "-inf"
        return repr(number)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        entries = (with_unit(str(key), entry) for key, entry in value.items())
        return "{ " + ", ".join(f"{_key(key)} = {inline(entry)}" for key, entry in entries) + " }"
    if isinstance(value, (Sequence, np.ndarray)):
        return "[" + ", ".join(inline(element) for element in value) + "]"
    raise TypeError(f"a scenario cannot hold {type(value).__name__}: {value!r}")


def _text(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    plain = "".join(
        escapes.get(char, char if char >= " " and char != "\x7f" else f"\\u{ord(char):04X}")
        for char in text
    )
    return f'"{plain}"'


def _key(key: str) -> str:
    return key if _BARE.match(key) else _text(key)


def dumps(table: Mapping[str, Any]) -> str:
    """Return a dictionary as a TOML file: a line for each key, a section for each table."""
    lines: list[str] = []
    _section(table, [], lines)
    return "\n".join(lines) + "\n"


def _section(table: Mapping[str, Any], path: list[str], lines: list[str]) -> None:
    entries = [with_unit(str(key), value) for key, value in table.items()]
    later = [entry for entry in entries if _is_section(entry[1])]
    for key, value in entries:
        if not _is_section(value):
            lines.append(f"{_key(key)} = {inline(value)}")
    for key, value in later:
        name = ".".join(_key(part) for part in [*path, key])
        if isinstance(value, Mapping):
            lines.append(f"[{name}]")
            _section(value, [*path, key], lines)
        else:
            for element in value:
                lines.append(f"[[{name}]]")
                for inner, entry in (with_unit(str(k), v) for k, v in element.items()):
                    lines.append(f"{_key(inner)} = {inline(entry)}")


def _is_section(value: Any) -> bool:
    if isinstance(value, Mapping):
        return True
    is_list = isinstance(value, (list, tuple)) and bool(value)
    return is_list and all(isinstance(element, Mapping) for element in value)


def override(key: str, value: Any) -> str:
    """Return a setting as the command line has it, `KEY=VALUE`."""
    key, value = with_unit(key, value)
    return f"{key}={inline(value)}"
