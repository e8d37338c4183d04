"""Logs of packets of real sessions (`--qlog`) as tables."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._errors import LogError, TraceWarning
from ._log_files import Field, records
from ._result import Result
from ._stats import Row, columns_of, result

#: Interval of the rows of series, that of simulated ones.
BIN_MS = 100.0
#: Most rows of a series: a day of two paths.
_MAX_ROWS = 2_000_000
#: Percentiles of delays, by the ends of their columns.
_PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "max": 100.0}
_SENT, _RECEIVED = "transport:packet_sent", "transport:packet_received"
_METRICS, _LOST = "recovery:metrics_updated", "anabranch:packets_lost"

Floats = NDArray[np.float64]


class Sent(NamedTuple):
    """A packet that left. Frame and fragment are -1 without media."""

    time_ms: float
    path: int
    number: int
    bytes: int
    reason: str | None
    frame: int
    fragment: int


class Received(NamedTuple):
    """A packet that arrived."""

    time_ms: float
    path: int
    number: int
    bytes: int


class _Log:
    """Packets and estimates of one session at one end. Times are in ms since 1970."""

    def __init__(self, path: str | os.PathLike[str], peer: str | None) -> None:
        self.file = os.fspath(path)
        self.is_receiver = False
        self.title = ""
        self.sent: list[Sent] = []
        self.received: list[Received] = []
        self.lost: list[tuple[float, int, int]] = []
        self.metrics: list[tuple[float, int, Field]] = []
        self.events: list[tuple[float, str, Field]] = []
        self._origin_ms = math.nan
        self._peers: dict[str, None] = {}
        self._read(peer)

    def _read(self, peer: str | None) -> None:
        for line, record in records(self.file):
            fields = Field(record, self.file, line)
            if math.isnan(self._origin_ms):
                self._head(fields, line)
                continue
            name = fields.text("name") or ""
            time = fields.number("time") + self._origin_ms
            if not 0 <= time <= 2.0**53:
                raise LogError("time is not between 1970 and 280000", self.file, line)
            group = (fields.text("group_id") or "").split(" path ")[0]
            if fields.text("path") is not None:
                if peer is not None and peer not in group:
                    continue
                self._peers[group] = None
                self._of_path(name, time, fields, line)
            elif name == "anabranch:events_left_out":
                count = fields.inner("data").count("count")
                text = f"{self.file}: the disk was too slow for {count} events, which are missing"
                warnings.warn(text, TraceWarning, 5)
            elif name.startswith("anabranch:"):
                self.events.append((time, name, fields.inner("data")))
        if math.isnan(self._origin_ms):
            raise LogError("the file is empty", self.file)
        if len(self._peers) > 1:
            known = ", ".join(self._peers)
            raise ValueError(f"peer: {self.file} has several sessions, choose one of {known}")
        if not self.sent and not self.received:
            about = "" if peer is None else f" with {peer}"
            raise LogError(f"the log has no packets{about}", self.file)

    def _head(self, fields: Field, line: int) -> None:
        if fields.text("qlog_version") is None:
            raise LogError("this is no qlog: the first record has no qlog_version", self.file, line)
        trace = fields.inner("trace")
        common = trace.inner("common_fields")
        if common.text("time_format") != "relative":
            raise LogError("times are not relative, as in logs of anabranch", self.file, line)
        self._origin_ms = common.number("reference_time")
        self.is_receiver = trace.inner("vantage_point").text("type") == "server"
        self.title = fields.text("title") or ""

    def _of_path(self, name: str, time: float, fields: Field, line: int) -> None:
        text = fields.text("path") or ""
        if not (text.isascii() and text.isdigit() and len(text) < 6):
            raise LogError(f"path {text[:40]!r} is no number", self.file, line)
        path, data = int(text), fields.inner("data")
        if name in (_SENT, _RECEIVED):
            number = data.inner("header").count("packet_number")
            size = data.inner("raw").count("length")
            if name == _RECEIVED:
                self.received.append(Received(time, path, number, size))
                return
            is_media = not math.isnan(data.number_or_nan("frame"))
            frame = data.count("frame") if is_media else -1
            fragment = data.count("fragment") if is_media else -1
            reason = data.text("reason")
            self.sent.append(Sent(time, path, number, size, reason, frame, fragment))
        elif name == _METRICS:
            self.metrics.append((time, path, data))
        elif name == _LOST:
            self.lost.append((time, path, data.count("count")))


def read_qlog(
    sender: str | os.PathLike[str],
    receiver: str | os.PathLike[str] | None = None,
    *,
    peer: str | None = None,
    flow: str = "measured",
    routes: Sequence[str] = (),
    header_bytes: int = 28,
    clock_offset_ms: float = 0.0,
    seed: int = 0,
) -> Result:
    """Read the qlog of a real session: one end's alone, or joined with that of the other end.

    Tables are `runs`, `flows`, `paths`, `reasons`, `events`, `packets`, `path_series` and
    `flow_series`, with the columns of a simulated result; those that the logs do not know are not
    there. Rows of series are 100 ms long. Times in s begin with the first packet.

    With both logs a packet's delay is known, and `frames` exists. A packet counts as dropped if a
    later one of its path arrived. A frame's `captured_s` is the time of its first transmission, and
    `bytes` the UDP payload of its fragments. It is complete if all its fragments arrived.

    `peer`: a part of the key of the session's peer, if a log has several. `flow`, `routes`: names
    of the flow, and of the paths by number. `header_bytes`: of IP and UDP for each packet, 28 or,
    with IPv6, 48. `clock_offset_ms`: how far the receiver's clock is ahead. `seed`: number of the
    session in the tables; simulated runs begin at 1, so `concat` joins both.

    Raises `LogError` for a file that holds something else, `OSError` for one that cannot be opened,
    and `ValueError` for several sessions, or two logs of the same end. Warns (`TraceWarning`) of
    events that are missing, and of packets that arrive before they leave: then clocks differ.

    >>> import anabranch
    >>> logs = [anabranch.testing.example(name) for name in ("send.sqlog", "recv.sqlog")]
    >>> measured = anabranch.read_qlog(*logs)
    >>> bool((measured.frames["delay_ms"] > 15).all())
    True
    """
    if not 0 <= header_bytes <= 1000:
        raise ValueError(f"header_bytes: {header_bytes} is not between 0 and 1000")
    if not math.isfinite(clock_offset_ms):
        raise ValueError(f"clock_offset_ms: {clock_offset_ms} is no finite number")
    logs = [_Log(path, peer) for path in (sender, receiver) if path is not None]
    if len(logs) == 2 and logs[0].is_receiver == logs[1].is_receiver:
        raise ValueError("receiver: both logs are of the same end of a session")
    near = next((log for log in logs if not log.is_receiver), None)
    far = next((log for log in logs if log.is_receiver), None)
    session = _Session(near, far, flow, tuple(routes), header_bytes, clock_offset_ms)
    return result(session.tables(), Path(os.fspath(sender)).stem, seed)


class _Session:
    def __init__(
        self,
        near: _Log | None,
        far: _Log | None,
        flow: str,
        routes: tuple[str, ...],
        header_bytes: int,
        clock_offset_ms: float,
    ) -> None:
        self._near, self._far, self._flow = near, far, flow
        self._routes, self._header_bytes = routes, header_bytes
        self._offset_ms = clock_offset_ms
        sides = [log for log in (near, far) if log is not None]
        times = [
            self._of(log, packet.time_ms)
            for log in sides
            for packets in (log.sent, log.received)
            for packet in packets
        ]
        self._begin_ms, self._end_ms = min(times), max(times)
        found = {packet.path for log in sides for packet in log.sent}
        self._paths = sorted(found | {packet.path for log in sides for packet in log.received})
        self._names = {
            path: routes[path] if path < len(routes) else str(path) for path in self._paths
        }
        if near is not None and far is not None:
            self._refuse_restarts(near, far)
        self._packets = self._forward() + self._reverse()

    def _of(self, log: _Log | None, time: float) -> float:
        """Return a time of a log in ms by the sender's clock."""
        return time - (self._offset_ms if log and log.is_receiver else 0.0)

    def _at(self, log: _Log | None, time: float) -> float:
        """Return a time of a log in s since the first packet."""
        return (self._of(log, time) - self._begin_ms) / 1e3

    @staticmethod
    def _refuse_restarts(near: _Log, far: _Log) -> None:
        for log in (near, far):
            keys = [(packet.path, packet.number) for packet in log.sent]
            if len(set(keys)) < len(keys):
                raise ValueError(
                    f"{log.file} has several sessions with this peer, whose packet numbers begin "
                    "again: two logs cannot be joined"
                )

    def _forward(self) -> list[Row]:
        return self._direction("forward", self._near, self._far)

    def _reverse(self) -> list[Row]:
        return self._direction("reverse", self._far, self._near)

    def _direction(self, direction: str, source: _Log | None, sink: _Log | None) -> list[Row]:
        """Return the events of packets in one direction."""
        rows: list[Row] = []
        left = {(packet.path, packet.number): packet for packet in source.sent} if source else {}
        arrived: set[tuple[int, int]] = set()
        highest: dict[int, int] = {}
        for come in sink.received if sink else []:
            key = (come.path, come.number)
            at, sent, delay = self._at(sink, come.time_ms), left.get(key), math.nan
            if sent is not None:
                delay = 1e3 * (at - self._at(source, sent.time_ms))
            reason = sent.reason if sent else None
            rows.append(self._row(at, "delivered", come.path, direction, come.bytes, delay, reason))
            arrived.add(key)
            highest[come.path] = max(come.number, highest.get(come.path, -1))
        for sent in source.sent if source else []:
            row = self._row(
                self._at(source, sent.time_ms),
                "sent",
                sent.path,
                direction,
                sent.bytes,
                math.nan,
                sent.reason,
            )
            rows.append(row)
            is_lost = (sent.path, sent.number) not in arrived
            if is_lost and sent.number < highest.get(sent.path, -1):
                rows.append({**row, "event": "dropped"})
        return rows

    def _row(
        self,
        time_s: float,
        event: str,
        path: int,
        direction: str,
        size: int,
        delay_ms: float,
        reason: str | None,
    ) -> Row:
        return {
            "time_s": time_s,
            "event": event,
            "flow": self._flow,
            "path": path,
            "direction": direction,
            "bytes": size + self._header_bytes,
            "delay_ms": delay_ms,
            "reason": reason,
        }

    def tables(self) -> dict[str, dict[str, Any]]:
        """Return the columns of all tables."""
        self._packets.sort(key=lambda row: float(row["time_s"]))
        early = sum(row["delay_ms"] < 0 for row in self._packets)
        if early:
            text = f"{early} packets arrive before they leave: the clocks differ"
            warnings.warn(f"{text}; give clock_offset_ms", TraceWarning, 4)
        events = [row["event"] for row in self._packets]
        runs = {
            f"packets_{name}": [events.count(name)] for name in ("sent", "delivered", "dropped")
        }
        tables: dict[str, dict[str, Any]] = {
            "runs": {"version": [None], "trace_hash": [None], **runs},
            "flows": columns_of([self._of_flow()]),
            "paths": columns_of([self._of_path(path) for path in self._paths]),
            "reasons": columns_of(self._reasons(), ["flow", "path", "reason", "packets", "bytes"]),
            "events": columns_of(self._events(), ["time_s", "flow", "path", "event", "state"]),
            "packets": columns_of(self._packets),
            "path_series": self._path_series(),
            "flow_series": self._flow_series(),
        }
        if self._near and self._far:
            frames = self._frames()
            tables["frames"] = columns_of(frames, _OF_FRAMES)
        return tables

    def _mine(self, event: str, path: int | None = None) -> list[Row]:
        """Return the packets of media's direction with an event."""
        return [
            row
            for row in self._packets
            if row["event"] == event
            and row["direction"] == "forward"
            and (path is None or row["path"] == path)
        ]

    def _counts(self, path: int | None) -> Row:
        seconds = max((self._end_ms - self._begin_ms) / 1e3, 1e-3)
        sent, delivered = self._mine("sent", path), self._mine("delivered", path)
        row: Row = {}
        if self._near:
            row["send_rate_bps"] = 8.0 * _bytes(sent) / seconds
            row["padding"] = _bytes([r for r in sent if r["reason"] == "padding"]) / max(
                _bytes(sent), 1
            )
        if self._far:
            row["throughput_bps"] = 8.0 * _bytes(delivered) / seconds
        both = bool(self._near and self._far)
        row["loss"] = len(self._mine("dropped", path)) / len(sent) if both and sent else math.nan
        if both:
            row.update(_delays("delay", [row["delay_ms"] for row in delivered]))
        return row

    def _of_flow(self) -> Row:
        row: Row = {"flow": self._flow, "controller": None, "scheduler": None}
        row.update(self._counts(None))
        row.pop("delay_max_ms", None)
        row.update({"goodput_bps": math.nan, "frames_decodable_on_time": math.nan})
        frames = self._frames() if self._near and self._far else []
        complete = [frame["delay_ms"] for frame in frames if frame["outcome"] == "complete"]
        if frames:
            row["frames_captured"] = float(len(frames))
            row["frames_complete"] = float(len(complete))
        row.update(_delays("frame_delay", complete))
        return row

    def _of_path(self, path: int) -> Row:
        row: Row = {"flow": self._flow, "path": path, "route": self._names[path]}
        return {**row, **self._counts(path)}

    def _reasons(self) -> list[Row]:
        counts: dict[tuple[int, str], list[int]] = {}
        for row in self._mine("sent"):
            sums = counts.setdefault((row["path"], row["reason"] or "?"), [0, 0])
            sums[0] += 1
            sums[1] += row["bytes"]
        return [
            {"flow": self._flow, "path": p, "reason": reason, "packets": sums[0], "bytes": sums[1]}
            for (p, reason), sums in sorted(counts.items())
        ]

    def _events(self) -> list[Row]:
        log = self._near or self._far
        return [
            {
                "time_s": self._at(log, time),
                "flow": self._flow,
                "path": data.number_or_nan("path"),
                "event": name.removeprefix("anabranch:").replace("_", "-"),
                "state": data.text("state"),
            }
            for time, name, data in (log.events if log else [])
        ]

    def _frames(self) -> list[Row]:
        """Return the frames, by the first copies of their fragments that left and arrived."""
        near, far = self._near, self._far
        if near is None or far is None:
            return []
        arrived = {(p.path, p.number): self._at(far, p.time_ms) for p in reversed(far.received)}
        first: dict[int, float] = {}
        sizes: dict[tuple[int, int], int] = {}
        there: dict[tuple[int, int], float] = {}
        for packet in near.sent:
            if packet.frame < 0:
                continue
            key = (packet.frame, packet.fragment)
            first.setdefault(packet.frame, self._at(near, packet.time_ms))
            sizes.setdefault(key, packet.bytes)
            at = arrived.get((packet.path, packet.number), math.inf)
            there[key] = min(at, there.get(key, math.inf))
        if any(packet.reason == "repair" for packet in near.sent):
            text = "fragments that repairs recovered count as missing: logs do not show them"
            warnings.warn(text, TraceWarning, 5)
        last: dict[int, float] = {}
        total: dict[int, int] = {}
        for key, at in there.items():
            last[key[0]] = max(at, last.get(key[0], -math.inf))
            total[key[0]] = total.get(key[0], 0) + sizes[key]
        return [
            {
                "captured_s": begin,
                "flow": self._flow,
                "frame": frame,
                "bytes": total[frame],
                "outcome": "complete" if math.isfinite(last[frame]) else "incomplete",
                "delay_ms": 1e3 * (last[frame] - begin) if math.isfinite(last[frame]) else math.nan,
            }
            for frame, begin in sorted(first.items())
        ]

    def _bins(self) -> Floats:
        count = max(1, math.ceil((self._end_ms - self._begin_ms) / BIN_MS - 1e-9))
        if count * len(self._paths) > _MAX_ROWS:
            raise ValueError(f"the session is longer than {_MAX_ROWS} rows of 100 ms")
        ends: Floats = np.arange(1, count + 1, dtype=np.float64) * (BIN_MS / 1e3)
        return ends

    def _path_series(self) -> dict[str, Any]:
        ends = self._bins()
        parts = [self._series_of(path, ends) for path in self._paths]
        order = np.arange(len(parts) * len(ends)).reshape(len(parts), len(ends)).T.ravel()
        return {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}

    def _series_of(self, path: int, ends: Floats) -> dict[str, Any]:
        count = len(ends)
        columns: dict[str, Any] = {
            "time_s": ends,
            "flow": np.full(count, self._flow, dtype=object),
            "path": np.full(count, path, dtype=np.int64),
            "route": np.full(count, self._names[path], dtype=object),
        }
        if self._near:
            columns["sent_bps"] = _rates(self._mine("sent", path), count)
        if self._far:
            delivered = self._mine("delivered", path)
            columns["delivered_bps"] = _rates(delivered, count)
            if self._near:
                columns["delay_ms"] = _means(delivered, count)
        log = self._near
        if log:
            lost = np.zeros(count, dtype=np.int64)
            for time, own, packets in log.lost:
                if own == path:
                    lost[_bin(self._at(log, time), count)] += packets
            columns["dropped_packets"] = lost
            metrics = [
                (self._at(log, time), data) for time, own, data in log.metrics if own == path
            ]
            columns.update(_latest(metrics, ends))
        return columns

    def _flow_series(self) -> dict[str, Any]:
        ends = self._bins()
        columns: dict[str, Any] = {
            "time_s": ends,
            "flow": np.full(len(ends), self._flow, dtype=object),
        }
        if self._far:
            columns["delivered_bps"] = _rates(self._mine("delivered"), len(ends))
        return columns


_OF_FRAMES = ["captured_s", "flow", "frame", "bytes", "outcome", "delay_ms"]
#: Names of qlog for the columns of series.
_ESTIMATES = {
    "smoothed_rtt_ms": "smoothed_rtt",
    "bandwidth_bps": "anabranch_bandwidth",
    "pacing_rate_bps": "pacing_rate",
    "congestion_window_bytes": "congestion_window",
    "bytes_in_flight": "bytes_in_flight",
}


def _bytes(rows: list[Row]) -> int:
    return sum(row["bytes"] for row in rows)


def _delays(name: str, values: list[float]) -> Row:
    known = np.array([value for value in values if not math.isnan(value)])
    row: Row = {f"{name}_mean_ms": float(known.mean()) if len(known) else math.nan}
    for end, share in _PERCENTILES.items():
        row[f"{name}_{end}_ms"] = float(np.percentile(known, share)) if len(known) else math.nan
    return row


def _bin(time_s: float, count: int) -> int:
    """Return the row of a series that covers a time; a row begins after the end of the last."""
    return min(max(math.ceil(time_s * 1e3 / BIN_MS - 1e-9) - 1, 0), count - 1)


def _rates(rows: list[Row], count: int) -> Floats:
    sums = np.zeros(count)
    for row in rows:
        sums[_bin(row["time_s"], count)] += 8e3 * row["bytes"] / BIN_MS
    return sums


def _means(rows: list[Row], count: int) -> Floats:
    sums, counts = np.zeros(count), np.zeros(count)
    for row in rows:
        if not math.isnan(row["delay_ms"]):
            at = _bin(row["time_s"], count)
            sums[at] += row["delay_ms"]
            counts[at] += 1
    means: Floats = np.divide(sums, counts, out=np.full(count, np.nan), where=counts > 0)
    return means


def _latest(metrics: list[tuple[float, Field]], ends: Floats) -> dict[str, Any]:
    """Return the estimates at the end of each row, missing before the first."""
    metrics = sorted(metrics, key=lambda entry: entry[0])
    at = np.searchsorted([time for time, _ in metrics], ends, side="right") - 1
    columns: dict[str, Any] = {}
    for column, name in _ESTIMATES.items():
        values = np.array([*(data.number_or_nan(name) for _, data in metrics), np.nan])
        columns[column] = values[at]
    states = np.array([*(data.text("anabranch_state") for _, data in metrics), None], dtype=object)
    columns["state"] = states[at]
    return columns
