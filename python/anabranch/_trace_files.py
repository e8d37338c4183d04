"""Trace files of emulators and simulators, read line by line within bounds on memory."""

from __future__ import annotations

import itertools
import math
import os
import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from ._errors import TraceError

#: Longest line or XML token in bytes; lines of the known tools are far shorter.
MAX_LINE_BYTES = 65_536
#: Most rows of a file, 0.7 GB of memory at most: mahimahi at 200 Mbit/s for ten minutes.
MAX_ROWS = 10_000_000
#: Longest trace, 49.7 days: the laboratory reads times in ms of 32 bits.
MAX_MS = 2.0**32 - 1
#: Highest rate in bit/s: beyond any link, thus a mistake in the unit.
MAX_BPS = 1e13
#: Longest delay in ms: beyond any path, thus a mistake in the unit.
MAX_DELAY_MS = 3_600_000.0
#: Bytes on the wire of an opportunity, mahimahi's value.
OPPORTUNITY_BYTES = 1504.0

RATE_UNITS = {
    "bit/s": 1.0,
    "kbit/s": 1e3,
    "Mbit/s": 1e6,
    "Gbit/s": 1e9,
    "B/s": 8.0,
    "kB/s": 8e3,
    "MB/s": 8e6,
}
TIME_UNITS = {"s": 1000.0, "ms": 1.0, "us": 1e-3, "ns": 1e-6}

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pieces:
    """Bytes of a link over time: piece `i` carries its bytes evenly from start to end.

    A piece without length is a single event. Pieces ascend and do not overlap.
    """

    start_ms: Floats
    end_ms: Floats
    bytes: Floats
    #: Starts and lengths in ms of the gaps.
    gaps: tuple[Floats, Floats]


def lines(path: str) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of each line. Raises `TraceError` for long lines or too many."""
    with open(path, "rb") as file:
        for number in itertools.count(1):
            line = file.readline(MAX_LINE_BYTES + 1)
            if not line:
                return
            if len(line) > MAX_LINE_BYTES:
                raise TraceError(f"a line is longer than {MAX_LINE_BYTES} bytes", path, number)
            if number > MAX_ROWS:
                raise TraceError(f"the file has more than {MAX_ROWS} lines", path, number)
            yield number, line


def shown(text: str | bytes) -> str:
    """Return a cell for a message: short, and without control characters."""
    plain = text if isinstance(text, str) else text.decode("utf-8", "replace")
    return ascii(plain[:40] + ("…" if len(plain) > 40 else ""))


def number_of(cell: str, what: str, file: str | None, line: int) -> float:
    """Return a finite number from a cell, or raise `TraceError`."""
    try:
        value = math.nan if "_" in cell else float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise TraceError(f"{what} {shown(cell)} is no finite number", file, line)
    return value


def mahimahi(path: str) -> Pieces:
    """Return the delivery opportunities of a mahimahi file: a time in ms on each line."""
    times = array("d")
    last = 0
    for number, line in lines(path):
        text = line.strip()
        if not text:
            continue
        if not text.isdigit() or len(text) > 15:
            reason = f"{shown(text)} is no time in whole milliseconds"
            raise TraceError(reason, path, number)
        time = int(text)
        if time < last:
            raise TraceError(f"{time} ms comes after {last} ms", path, number)
        if time > MAX_MS:
            raise TraceError(f"{time} ms is more than 49.7 days", path, number)
        times.append(time)
        last = time
    if not times or last == 0:
        raise TraceError("the trace has no time above 0 ms", path)
    return events(np.frombuffer(times), np.broadcast_to(OPPORTUNITY_BYTES, len(times)))


def events(times: Floats, sizes: Floats) -> Pieces:
    """Return single events in ms with their bytes, and gaps of more than a second."""
    before = np.concatenate(([0.0], times[:-1]))
    is_gap = times - before > 1000.0
    return Pieces(times, times, sizes, (before[is_gap], (times - before)[is_gap]))


def pantheon(path: str, flow: int | None) -> Pieces:
    """Return capacity or deliveries of a tunnel log, in the format of Pantheon's `tunnel_graph.py`.

    Lines `TIME # BYTES` are opportunities of an emulated link, `TIME + BYTES …` arrivals at the
    link, `TIME - BYTES DELAY FLOW` deliveries, `TIME d PACKETS BYTES` drops (in logs of mm-link).
    """
    found = {b"#": (array("d"), array("d")), b"-": (array("d"), array("d"))}
    begin: float | None = None
    for number, line in lines(path):
        items = line.split()
        if not items or items[0].startswith(b"#"):
            continue
        if len(items) < 3 or items[1] not in (b"#", b"+", b"-", b"d"):
            raise TraceError(f"{shown(line.strip())} is no event of a tunnel log", path, number)
        time = number_of(items[0].decode("ascii", "replace"), "the time", path, number)
        if not items[2].isdigit() or not 0 < int(items[2][:15]) <= 1_000_000:
            raise TraceError(f"{shown(items[2])} is no size of a packet in bytes", path, number)
        begin = time if begin is None else begin
        if not 0 <= time - begin <= MAX_MS:
            reason = f"{time:g} ms is before the first event, {begin:g} ms, or 49.7 days after it"
            raise TraceError(reason, path, number)
        has_flow = items[1] == b"-" and flow is not None
        if items[1] in (b"+", b"d") or (has_flow and items[4:5] != [str(flow).encode()]):
            continue
        times, sizes = found[items[1]]
        if times and time - begin < times[-1]:
            raise TraceError(f"{time:g} ms comes after {times[-1] + begin:g} ms", path, number)
        times.append(time - begin)
        sizes.append(int(items[2]))
    uses_capacity = flow is None and bool(found[b"#"][0])
    times, sizes = found[b"#" if uses_capacity else b"-"]
    if not times or times[-1] <= 0:
        about = "" if flow is None else f" of flow {flow}"
        raise TraceError(f"the log has no deliveries{about} over a time above 0", path)
    return events(np.frombuffer(times), np.frombuffer(sizes))


_TIME = re.compile(r"^\+?([0-9.]+(?:e[+-]?[0-9]+)?)(ns|us|ms|s)$")


def flow_monitor(path: str, flow: int | None) -> Pieces:
    """Return the mean rate of flows between their first and last delivery, by ns-3's flow monitor.

    Flows that overlap are added.
    """
    begins, ends, sizes = array("d"), array("d"), array("d")
    stack: list[str] = []
    parser = expat.ParserCreate()

    def fail(reason: str) -> TraceError:
        return TraceError(reason, path, parser.CurrentLineNumber)

    def time_ms(attributes: Mapping[str, str], name: str) -> float:
        found = _TIME.match(attributes.get(name, ""))
        if found is None:
            raise fail(f"{name}={shown(attributes.get(name, ''))} is no time such as +1e+09ns")
        value = number_of(found[1], name, path, parser.CurrentLineNumber) * TIME_UNITS[found[2]]
        if value > MAX_MS:
            raise fail(f"{name} is more than 49.7 days")
        return value

    def start(name: str, attributes: dict[str, str]) -> None:
        parent = stack[-1] if stack else ""
        stack.append(name)
        if len(stack) > 64:
            raise fail("elements are nested more than 64 deep")
        if not parent and name != "FlowMonitor":
            raise fail(f"the root is {shown(name)}, not FlowMonitor")
        if name != "Flow" or parent != "FlowStats":
            return
        if flow is not None and attributes.get("flowId") != str(flow):
            return
        received = attributes.get("rxBytes", "")
        if not (received.isascii() and received.isdigit()) or len(received) > 15:
            raise fail(f"rxBytes={shown(received)} is no count of bytes")
        if int(received) == 0:
            return
        first = time_ms(attributes, "timeFirstRxPacket")
        last = time_ms(attributes, "timeLastRxPacket")
        if last < first:
            raise fail("timeLastRxPacket is before timeFirstRxPacket")
        # A flow of one packet takes a millisecond, the resolution of traces.
        last = max(last, first + 1.0)
        if int(received) * 8000.0 / (last - first) > MAX_BPS:
            raise fail("the flow is faster than 10 Tbit/s")
        if len(begins) >= MAX_ROWS:
            raise fail(f"there are more than {MAX_ROWS} flows")
        begins.append(first)
        ends.append(last)
        sizes.append(int(received))

    def refuse_doctype(*_: Any) -> None:
        raise fail("a document type is not allowed")

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda name: stack.pop()
    parser.StartDoctypeDeclHandler = refuse_doctype
    _feed(parser, path)
    if not begins:
        about = "no flow" if flow is None else f"no flow {flow}"
        raise TraceError(f"{about} received anything", path)
    return _added(np.frombuffer(begins), np.frombuffer(ends), np.frombuffer(sizes))


def _feed(parser: expat.XMLParserType, path: str) -> None:
    """Parse a file in parts. Raises `TraceError` for bad XML and for tokens that are too long."""
    fed = 0
    try:
        with open(path, "rb") as file:
            while part := file.read(MAX_LINE_BYTES):
                parser.Parse(part, False)
                fed += len(part)
                if fed - parser.CurrentByteIndex > 16 * MAX_LINE_BYTES:
                    raise TraceError("an element is too long", path, parser.CurrentLineNumber)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise TraceError(expat.ErrorString(error.code), path, error.lineno) from None


def _added(begins: Floats, ends: Floats, sizes: Floats) -> Pieces:
    bounds, place = np.unique(np.concatenate((begins, ends)), return_inverse=True)
    change = np.zeros(len(bounds))
    rates = sizes / (ends - begins)
    np.add.at(change, place[: len(begins)], rates)
    np.add.at(change, place[len(begins) :], -rates)
    widths = np.diff(bounds)
    per_ms = np.cumsum(change)[:-1]
    # Sums of rates that end leave rounding errors where nothing is sent.
    per_ms = np.where(per_ms < 1e-9 * rates.max(), 0.0, per_ms)
    begin = bounds[0]
    is_gap = per_ms == 0
    gaps = (bounds[:-1][is_gap] - begin, widths[is_gap])
    return Pieces(bounds[:-1] - begin, bounds[1:] - begin, per_ms * widths, gaps)


def pantheon_log(path: str, scheme: str | None, run: int) -> str:
    """Return the log of the data link of a run in a folder of Pantheon's results."""
    if not os.path.isdir(path):
        return path
    end = f"_datalink_run{run}.log"
    names = sorted(name for name in os.listdir(path) if name.endswith(end))
    schemes = [name[: -len(end)] for name in names]
    if scheme is None and len(schemes) == 1:
        scheme = schemes[0]
    if scheme not in schemes:
        known = ", ".join(schemes) or "none"
        raise TraceError(f"no log of scheme {scheme!r} and run {run}; schemes are {known}", path)
    return os.path.join(path, scheme + end)
