"""Statistics of real sessions (`--stats`) as tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._errors import LogError
from ._log_files import Field, Program, programs
from ._result import Result
from ._table import Table

#: Columns of expectations, of which a real session has none.
NO_EXPECTATIONS: dict[str, Any] = {
    "point": np.empty(0, np.int64),
    "seed": np.empty(0, np.int64),
    **{name: np.empty(0, object) for name in ("metric", "subject", "unit")},
    **{name: np.empty(0) for name in ("min", "max", "value", "from_s", "to_s")},
    "is_met": np.empty(0, np.bool_),
}
#: Events of `path_state`, by the names of the state that they lead to.
_STATES = {"path-absent": "absent", "path-present": "present"}

Row = dict[str, Any]


def read_stats(
    path: str | os.PathLike[str],
    *,
    run: int = -1,
    flow: str | None = None,
    routes: Sequence[str] = (),
    seed: int = 0,
) -> Result:
    """Read the statistics of a real session, which `send`, `recv`, `proxy` or `serve` wrote.

    Tables are `runs`, `flows`, `paths`, `reasons`, `events`, `path_series` and `flow_series`, with
    the columns of a simulated result; those that a program cannot know are not there. A row of a
    series is about a second. Times in s begin with the first session. A sender knows `sent_bps`,
    round-trip times and losses, a receiver `delivered_bps` and complete frames.

    `run`: which program's lines are read, from 0, if several have appended to the file; -1: the
    last. `flow`: name of the flow, by default that of the stream. `routes`: names of the paths by
    number, by default those of the file. `seed`: number of the session in the tables; simulated
    runs begin at 1, so `concat` joins both.

    Raises `LogError` for a file that holds something else, `OSError` for one that cannot be opened,
    and `ValueError` for a `run` that is not there, or a `flow` for several streams. Warns
    (`TraceWarning`) of a last line that was cut off.

    >>> import anabranch
    >>> measured = anabranch.read_stats(anabranch.testing.example("send.json"))
    >>> measured.path_series.names[3:7]
    ['flow', 'path', 'route', 'sent_bps']
    """
    file, found = os.fspath(path), programs(path)
    if not -len(found) <= run < len(found):
        raise ValueError(f"run: the file has the lines of {len(found)} programs, and no {run}")
    reader = _Reader(found[run], file, flow, tuple(routes))
    return result(reader.tables(), Path(file).stem, seed)


def result(tables: dict[str, dict[str, Any]], name: str, seed: int) -> Result:
    """Return a result of one session, whose tables get their index."""
    indexed = {}
    for table, columns in tables.items():
        count = len(next(iter(columns.values())))
        index = {"point": np.zeros(count, np.int64), "seed": np.full(count, seed, np.int64)}
        indexed[table] = Table.from_columns({**index, **columns})
    indexed["expectations"] = Table.from_columns(NO_EXPECTATIONS)
    return Result(indexed, name=name)


class _Counts:
    """Counters of a stream or path, summed over its sessions."""

    def __init__(self) -> None:
        self.total: dict[str, int] = {}
        self._last: dict[str, int] = {}

    def add(self, name: str, value: int, is_reset: bool) -> int:
        """Take a counter's value, and return by how much it grew."""
        before = 0 if is_reset else self._last.get(name, 0)
        # A counter that fell without a word belongs to another session.
        growth = value - before if value >= before else value
        self._last[name] = value
        self.total[name] = self.total.get(name, 0) + growth
        return growth


class _Reader:
    def __init__(
        self, program: Program, file: str, flow: str | None, routes: tuple[str, ...]
    ) -> None:
        self._lines, self._file, self._flow, self._routes = program.lines, file, flow, routes
        stats = [line for line in self._lines if line.text("event") == "stats"]
        if not stats:
            raise LogError("this program has written no statistics", file)
        self._stats = stats
        self._version = stats[-1].text("version")
        role = stats[-1].text("role")
        # The ends of a tunnel do both.
        self._sends, self._receives = role != "recv", role != "send"
        names = {stream.text("name") for line in stats for stream in line.each("streams")}
        if flow is not None and len(names) > 1:
            raise ValueError(f"flow: the file has {len(names)} streams, and one name is not enough")
        began = [
            line.number("uptime_s") for line in self._lines if line.text("event") == "session-began"
        ]
        self._begin_s = began[0] if began else self._start_s(stats[0])
        self._streams: dict[str, _Counts] = {}
        self._paths: dict[tuple[str, int], _Counts] = {}
        self._names: dict[tuple[str, int], str] = {}
        self._session_s: dict[str, float] = {}
        self._last_s: dict[str, float] = {}

    @staticmethod
    def _start_s(line: Field) -> float:
        return line.number("uptime_s") - line.number("interval_s")

    def _name(self, stream: str | None) -> str:
        return self._flow or stream or "?"

    def _route(self, number: int, name: str | None) -> str:
        return self._routes[number] if number < len(self._routes) else name or str(number)

    def tables(self) -> dict[str, dict[str, Any]]:
        """Return the columns of all tables."""
        path_rows: list[Row] = []
        flow_rows: list[Row] = []
        for line in self._stats:
            time_s = line.number("uptime_s") - self._begin_s
            for stream in line.each("streams"):
                flow = self._name(stream.text("name"))
                flow_rows.append({"time_s": time_s, "flow": flow, **self._of_flow(flow, stream)})
                for path in stream.each("paths"):
                    path_rows.append(
                        {"time_s": time_s, "flow": flow, **self._of_path(flow, path, stream)}
                    )
                self._add_seconds(flow, stream)
        if not flow_rows:
            raise LogError("the statistics have no stream", self._file)
        flows = self._flows()
        delivered = "acked_packets" if self._sends else "received_packets"
        runs: dict[str, Any] = {"version": [self._version], "trace_hash": [None]}
        runs["packets_sent"] = [self._of_all("sent_packets")]
        runs["packets_delivered"] = [self._of_all(delivered)]
        runs["packets_dropped"] = [self._of_all("lost_packets")]
        return {
            "runs": runs,
            "flows": flows,
            "paths": self._path_table(),
            "reasons": self._reasons(),
            "events": self._events(),
            "path_series": columns_of(path_rows),
            "flow_series": columns_of(flow_rows),
        }

    def _add_seconds(self, flow: str, stream: Field) -> None:
        """Add the time since the last line to the duration of the flow's sessions."""
        seconds = stream.number_or_nan("session_s")
        seconds = 0.0 if np.isnan(seconds) else seconds
        before = 0.0 if stream.is_true("reset") else self._last_s.get(flow, 0.0)
        growth = seconds - before if seconds >= before else seconds
        self._last_s[flow] = seconds
        self._session_s[flow] = self._session_s.get(flow, 0.0) + growth

    def _of_flow(self, flow: str, stream: Field) -> Row:
        counts = self._streams.setdefault(flow, _Counts())
        own = stream.inner("counters")
        for name in ("frames_sent", "frames_late", "frames_received", "frames_dropped"):
            counts.add(name, own.count(name), stream.is_true("reset"))
        counts.add("delivered_bytes", own.count("delivered_bytes"), stream.is_true("reset"))
        row: Row = {}
        if self._receives:
            row["delivered_bps"] = stream.inner("received_rate_bps").number_or_nan("avg")
        if self._sends:
            row["target_bps"] = stream.number_or_nan("target_rate_bps")
        return row

    def _of_path(self, flow: str, path: Field, stream: Field) -> Row:
        number = path.count("path")
        key = (flow, number)
        counts = self._paths.setdefault(key, _Counts())
        is_reset = stream.is_true("reset")
        own = path.inner("counters")
        grown = {
            name: counts.add(name, own.count(name), is_reset)
            for name in (*_PACKETS, "sent_bytes", "received_bytes")
        }
        for reason, sent in path.items("sent_reasons"):
            for unit in ("packets", "bytes"):
                counts.add(f"{unit} {reason}", sent.count(unit), is_reset)
        self._names[key] = self._route(number, path.text("name"))
        row: Row = {"path": number, "route": self._names[key]}
        if self._sends:
            row["sent_bps"] = path.inner("sent_rate_bps").number_or_nan("avg")
            row["dropped_packets"] = grown["lost_packets"]
        if self._receives:
            row["delivered_bps"] = path.inner("received_rate_bps").number_or_nan("avg")
        row["smoothed_rtt_ms"] = 1e3 * path.inner("rtt_s").number_or_nan("avg")
        row["bandwidth_bps"] = path.number_or_nan("bandwidth_bps")
        if self._sends:
            row["congestion_window_bytes"] = path.number_or_nan("congestion_window_bytes")
            row["bytes_in_flight"] = path.number_or_nan("in_flight_bytes")
            row["queued_bytes"] = path.number_or_nan("queued_bytes")
        row["state"] = path.text("state")
        row["controller_state"] = path.text("controller_state") or None
        return row

    def _of_all(self, name: str) -> int:
        return sum(counts.total.get(name, 0) for counts in self._paths.values())

    def _flows(self) -> dict[str, Any]:
        rows = []
        for flow, counts in self._streams.items():
            total, seconds = counts.total, self._session_s[flow]
            sent = {name: self._sum(flow, name) for name in (*_PACKETS, "sent_bytes")}
            row: Row = {"flow": flow, "controller": None, "scheduler": None}
            goodput = 8.0 * total["delivered_bytes"] / seconds if seconds > 0 else np.nan
            row["goodput_bps"] = goodput if self._receives else np.nan
            if self._sends:
                row["send_rate_bps"] = 8.0 * sent["sent_bytes"] / seconds if seconds else np.nan
                row["frames_captured"] = float(total["frames_sent"])
                row["retransmissions"] = _share(sent["retransmitted_packets"], sent["sent_packets"])
                row["repairs"] = _share(sent["repair_packets"], sent["sent_packets"])
            if self._receives:
                received = self._sum(flow, "received_bytes")
                row["throughput_bps"] = 8.0 * received / seconds if seconds else np.nan
                row["frames_complete"] = float(total["frames_received"])
                row["frames_dropped"] = float(total["frames_dropped"])
            loss = _share(sent["lost_packets"], sent["sent_packets"])
            row["loss"] = loss if self._sends else np.nan
            row["frames_decodable_on_time"] = row["frame_delay_p95_ms"] = np.nan
            rows.append(row)
        return columns_of(rows)

    def _sum(self, flow: str, name: str) -> int:
        return sum(c.total.get(name, 0) for (own, _), c in self._paths.items() if own == flow)

    def _path_table(self) -> dict[str, Any]:
        rows = []
        for (flow, number), counts in self._paths.items():
            total, seconds = counts.total, self._session_s[flow]
            row: Row = {"flow": flow, "path": number, "route": self._names[flow, number]}
            if self._sends:
                row["send_rate_bps"] = 8.0 * total["sent_bytes"] / seconds if seconds else np.nan
                row["packets_sent"] = total["sent_packets"]
                row["packets_dropped"] = total["lost_packets"]
                row["loss"] = _share(total["lost_packets"], total["sent_packets"])
                retransmitted = total["retransmitted_packets"]
                row["retransmissions"] = _share(retransmitted, total["sent_packets"])
            if self._receives:
                received = total["received_bytes"]
                row["throughput_bps"] = 8.0 * received / seconds if seconds else np.nan
                row["packets_delivered"] = total["received_packets"]
            rows.append(row)
        return columns_of(rows, ["flow", "path", "route"])

    def _reasons(self) -> dict[str, Any]:
        rows = []
        for (flow, number), counts in self._paths.items():
            for name, packets in counts.total.items():
                if name.startswith("packets "):
                    reason = name.removeprefix("packets ")
                    sent = counts.total[f"bytes {reason}"]
                    row = {"flow": flow, "path": number, "reason": reason}
                    rows.append({**row, "packets": packets, "bytes": sent})
        return columns_of(rows, ["flow", "path", "reason", "packets", "bytes"])

    def _events(self) -> dict[str, Any]:
        rows = []
        for line in self._lines:
            event = line.text("event") or ""
            if event == "stats":
                continue
            row: Row = {"time_s": line.number("uptime_s") - self._begin_s}
            row["flow"] = self._name(line.text("stream"))
            row["path"] = line.number_or_nan("path")
            row["event"] = event
            row["state"] = line.text("state") or _STATES.get(event)
            rows.append(row)
        return columns_of(rows, ["time_s", "flow", "path", "event", "state"])


_PACKETS = (
    "sent_packets",
    "received_packets",
    "acked_packets",
    "lost_packets",
    "retransmitted_packets",
    "repair_packets",
    "padding_packets",
)
#: Columns that hold whole numbers, and those that hold texts.
_WHOLE = ("path", "frame", "packets", "bytes")
_TEXTS = (
    *("flow", "controller", "scheduler", "route", "reason"),
    *("event", "state", "controller_state", "direction", "outcome"),
)


def columns_of(rows: list[Row], names: Sequence[str] = ()) -> dict[str, Any]:
    """Return columns of rows; `names` are those of a table without rows."""
    chosen = list(rows[0]) if rows else list(names)
    columns: dict[str, Any] = {}
    for name in chosen:
        values = [row[name] for row in rows]
        if name in _TEXTS:
            # Without rows a list would become numbers.
            columns[name] = np.array(values, dtype=object)
        elif rows and all(isinstance(value, int) for value in values):
            columns[name] = np.array(values, dtype=np.int64)
        else:
            kind = np.int64 if not rows and name in _WHOLE else np.float64
            columns[name] = np.array(values, dtype=kind)
    return columns


def _share(part: int, whole: int) -> float:
    return part / whole if whole else np.nan
