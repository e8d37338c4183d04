"""Outputs of measuring tools: JSON of iperf3, and the text of ping."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from ._errors import TraceError
from ._log_files import json_object
from ._trace_files import MAX_BPS, MAX_DELAY_MS, MAX_MS, MAX_ROWS, Floats, Pieces, lines
from ._trace_tables import GAP_INTERVALS, Gaps, held, refuse_gaps

#: Longest JSON of iperf3 that is read, a day of intervals of a second.
MAX_JSON_BYTES = 128 << 20
#: Bytes of a file that tell its format.
_HEAD_BYTES = 4096
#: Text of iperf3: a line of an interval.
_IPERF_TEXT = re.compile(rb"\[ *(?:\d+|SUM|ID)\] .*(?:bits/sec|Interval)")


def head_of(path: str) -> bytes:
    """Return the first bytes of a file without white space before them."""
    with open(path, "rb") as file:
        return file.read(_HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()


def refuse_text_of_iperf(path: str, head: bytes) -> None:
    """Raise `TraceError` for the text that iperf3 prints for people."""
    if _IPERF_TEXT.search(head):
        raise TraceError("this is iperf3's text, rounded for people: run iperf3 --json", path)


def iperf3(path: str, total: str, gaps: Gaps) -> Pieces:
    """Return the bytes of each interval of iperf3's JSON, also that of `--json-stream`.

    `total`: the key of the sums over all streams, "sum" or "sum_bidir_reverse".
    """
    starts: list[float] = []
    ends: list[float] = []
    sizes: list[float] = []
    for interval in _intervals(path):
        found = interval.get(total)
        if not isinstance(found, dict):
            known = ", ".join(key for key in interval if str(key).startswith("sum")) or "none"
            raise TraceError(f"an interval has no {total!r}; its sums are {known}", path)
        if found.get("omitted"):
            continue
        start, end, size = (_number(found, key, path) for key in ("start", "end", "bytes"))
        if end <= start or (ends and 1000.0 * start < ends[-1] - 50.0):
            raise TraceError(f"an interval from {start:g} to {end:g} s is not in order", path)
        if 1000.0 * end > MAX_MS or 8.0 * size / (end - start) > MAX_BPS:
            raise TraceError(f"the interval at {start:g} s is above 10 Tbit/s or 49.7 days", path)
        # Sums of clock readings overlap by rounding.
        starts.append(max(1000.0 * start, ends[-1] if ends else 0.0))
        ends.append(max(1000.0 * end, starts[-1]))
        sizes.append(size)
        if len(starts) > MAX_ROWS:
            raise TraceError(f"there are more than {MAX_ROWS} intervals", path)
    if not starts:
        raise TraceError("the test has no intervals that count: was --omit longer than it?", path)
    start_ms, end_ms, carried = np.array(starts), np.array(ends), np.array(sizes)
    start_ms, end_ms = start_ms - starts[0], end_ms - starts[0]
    pause = start_ms[1:] - end_ms[:-1]
    usual = float(np.median(end_ms - start_ms))
    is_gap = pause > (GAP_INTERVALS - 1.0) * usual
    found_gaps = (end_ms[:-1][is_gap], pause[is_gap])
    if gaps == "error":
        refuse_gaps(found_gaps, path)
    if gaps == "hold":
        widths = np.append(np.diff(start_ms), end_ms[-1] - start_ms[-1])
        carried = carried * widths / np.maximum(end_ms - start_ms, 1e-9)
        return Pieces(start_ms, start_ms + widths, carried, (np.empty(0), np.empty(0)))
    return Pieces(start_ms, end_ms, carried, found_gaps)


def _intervals(path: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of intervals."""
    if b'"event"' in head_of(path)[:64]:
        yield from _streamed(path)
        return
    with open(path, "rb") as file:
        text = file.read(MAX_JSON_BYTES + 1)
    if len(text) > MAX_JSON_BYTES:
        reason = f"the JSON is longer than {MAX_JSON_BYTES >> 20} MiB: run iperf3 --json-stream"
        raise TraceError(reason, path)
    document = _object(text.removeprefix(b"\xef\xbb\xbf"), path, None)
    intervals = document.get("intervals")
    if document.get("error") and not intervals:
        raise TraceError(f"iperf3 failed: {str(document['error'])[:200]}", path)
    if not isinstance(intervals, list) or not all(isinstance(each, dict) for each in intervals):
        reason = "this JSON is not of iperf3: read it by pandas.read_json, and give the data frame"
        raise TraceError(reason, path)
    yield from intervals


def _streamed(path: str) -> Iterator[dict[str, Any]]:
    for number, line in lines(path):
        if not line.strip():
            continue
        record = _object(line, path, number)
        data = record.get("data")
        if record.get("event") == "error":
            raise TraceError(f"iperf3 failed: {str(data)[:200]}", path, number)
        if record.get("event") == "interval":
            if not isinstance(data, dict):
                raise TraceError("an interval is no object of JSON", path, number)
            yield data


def _object(text: bytes, path: str, line: int | None) -> dict[str, Any]:
    try:
        return json_object(text)
    except ValueError as error:
        raise TraceError(str(error), path, line) from None


def _number(found: dict[str, Any], key: str, path: str) -> float:
    value: Any = found.get(key)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    # The bound is beyond any count of bytes, and exact in a float.
    if not is_number or not 0 <= value < 2.0**53:
        raise TraceError(f"{key} of an interval is {str(value)[:40]}, no number from 0", path)
    return float(value)


_STAMPED = rb"^\[(?P<at>\d{1,12}(?:\.\d{1,9})?)\] "
_REPLY = re.compile(
    _STAMPED + rb".*(?:icmp_)?seq=(?P<seq>\d{1,9}) .*time[=<](?P<rtt>\d{1,9}(?:\.\d{1,6})?) ?ms"
)
_SILENT = re.compile(_STAMPED + rb"(?:no answer yet for|From .*) ?icmp_seq=(?P<seq>\d{1,9})\b")
_COUNT = re.compile(rb"^(\d{1,9}) packets transmitted, ")


def is_of_ping(head: bytes) -> bool:
    """Return whether a file is the text of ping."""
    return head.startswith(b"PING ") or re.match(_STAMPED + rb".*icmp_seq=", head) is not None


def ping(path: str, gaps: Gaps) -> tuple[Floats, Floats]:
    """Return times of sending in ms, from the first, and round-trip times in ms (NaN: lost).

    The text is that of iputils' `ping -D`. A request without an answer is lost: one that `-O` says,
    one whose number is missing, and those at the end that the summary counts.
    """
    answers, first, last = _answers(path)
    if not answers:
        reason = "ping printed no answers with times: run ping -D, and -O to see losses at once"
        raise TraceError(reason, path)
    if last - first >= MAX_ROWS:
        raise TraceError(f"there are more than {MAX_ROWS} requests", path)
    every = np.arange(first, last + 1)
    numbers = np.array(sorted(answers))
    sent_ms, rtts = (np.array([answers[n][at] for n in numbers.tolist()]) for at in (0, 1))
    spacing = np.diff(sent_ms) / np.diff(numbers)
    usual = float(np.median(spacing)) if len(spacing) else 1000.0
    # Requests before the first answer and after the last one leave at the usual pace.
    beyond = np.maximum(every - numbers[-1], 0) - np.maximum(numbers[0] - every, 0)
    times = np.maximum.accumulate(np.interp(every, numbers, sent_ms) + usual * beyond)
    times -= times[0]
    if times[-1] > MAX_MS:
        raise TraceError("the text covers more than 49.7 days", path)
    delays = np.full(len(every), np.nan)
    delays[numbers - first] = rtts
    lost = np.isnan(delays)
    if gaps == "error":
        refuse_gaps((times[lost], np.full(int(lost.sum()), usual)), path)
    return times, held(delays) if gaps == "hold" else delays


def _answers(path: str) -> tuple[dict[int, tuple[float, float]], int, int]:
    """Return time of sending and round-trip time in ms of each answered request by its number.

    Also the numbers of the first and the last request.
    """
    found: dict[int, tuple[float, float]] = {}
    first: int | None = None
    last: int | None = None
    for line, text in lines(path):
        if line == 1 and text.startswith(b"PING "):
            first = 1
        if (counted := _COUNT.match(text)) and last is not None:
            # Numbers have 16 bits, counts more.
            last = max(last, int(counted[1])) if first == 1 else last
        reply = _REPLY.match(text)
        match = reply or _SILENT.match(text)
        if match is None:
            continue
        number = int(match["seq"])
        if last is not None:
            # The number that ends in these 16 bits, and is the nearest to the newest one.
            number += round((last - number) / 65_536) * 65_536
        first = number if first is None else min(first, number)
        last = number if last is None else max(last, number)
        if reply is None:
            continue
        rtt_ms = float(reply["rtt"])
        if rtt_ms > MAX_DELAY_MS:
            raise TraceError(f"a delay of {rtt_ms:g} ms is above an hour", path, line)
        # A duplicate comes later than the first answer.
        found.setdefault(number, (1000.0 * float(reply["at"]) - rtt_ms, rtt_ms))
    return found, first or 0, last or 0
