"""A scenario's network in real time, by the program's emulator."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from . import _native, _toml
from ._errors import EmulationError, ProgramNotFound, ScenarioError, known_and_near
from ._run import ScenarioLike, as_scenario
from ._scenario import Scenario

#: Values of a link that the emulator can change while it runs.
_CHANGEABLE = ("rate", "delay", "loss")
#: Time in seconds in which the emulator answers and ends; it takes milliseconds.
_PATIENCE_S = 10.0
_CONTROL = "changes at http://"


def emulate(
    scenario: ScenarioLike,
    to: int | str,
    *,
    ports: Mapping[str, int] | None = None,
    seed: int = 1,
    program: str | os.PathLike[str] | None = None,
    timeout_s: float = 10.0,
) -> Emulation:
    """Emulate a scenario's network in real time, in a `with` block.

    Each route becomes a UDP port of this machine. Packets to it pass the route's link to `to`: a
    port of this machine, or `"IP:PORT"`. The answers pass the link back. Flows are ignored.

    `ports`: ports of routes by name; free ones for others. `seed`: of losses and jitter.
    `program`: the file of the program `anabranch`, else that of the environment's `ANABRANCH`, else
    that on the `PATH`. `timeout_s`: time in seconds in which it must be ready.

    The program runs until the block ends, for any reason, or until Python does.

    Raises `ProgramNotFound`, `EmulationError` if the program does not start, `ScenarioError`, and
    `ValueError` for a scenario with a `[sweep]`. A network needs one link per route and direction.

    >>> import anabranch
    >>> with anabranch.emulate("two-paths.toml", to=7000) as network:  # doctest: +SKIP
    ...     network.ports["wifi"]
    ...     network.set("links.wifi.rate", "2 Mbit/s")
    41787
    """
    chosen = as_scenario(scenario)
    if chosen.points[0]:
        raise ValueError("emulate: the scenario has a [sweep]; remove it: with_({'sweep': {}})")
    target = f"127.0.0.1:{to}" if isinstance(to, int) else to
    options = ["--to", target, "--listen", "127.0.0.1:0", "--seed", str(seed)]
    for route, port in (ports or {}).items():
        options += ["--listen", f"{route}=127.0.0.1:{port}"]
    return Emulation(chosen, target, [_find(program), "emulate"], options, timeout_s)


class Emulation:
    """A network that runs while its `with` block does; `emulate` makes it.

    >>> import anabranch
    >>> with anabranch.emulate("two-paths.toml", to=7000) as network:  # doctest: +SKIP
    ...     sorted(network.ports)
    ['lte', 'wifi']
    """

    __slots__ = (
        "_changed",
        "_command",
        "_control",
        "_folder",
        "_has_ended",
        "_lines",
        "_options",
        "_ports",
        "_process",
        "_reader",
        "_routes",
        "_scenario",
        "_timeout_s",
        "_to",
    )

    def __init__(
        self, scenario: Scenario, to: str, command: list[str], options: list[str], timeout_s: float
    ) -> None:
        self._scenario, self._to, self._timeout_s = scenario, to, timeout_s
        self._command, self._options = command, options
        self._routes: list[dict[str, Any]] = scenario.describe()["routes"]
        self._changed = threading.Condition()
        self._lines: list[str] = []
        self._ports: dict[str, int] = {}
        self._control = ""
        self._has_ended = False
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def ports(self) -> dict[str, int]:
        """UDP port of each route, on 127.0.0.1.

        >>> import anabranch
        >>> with anabranch.emulate("two-paths.toml", to=7000) as network:  # doctest: +SKIP
        ...     network.ports["wifi"]
        41787
        """
        return dict(self._ports)

    def set(self, key: str, value: Any) -> None:
        """Change a link at once: its `rate`, `delay` or `loss`, by a key as in `Scenario.with_`.

        A change replaces the scenario's schedule of the same value. Raises `ScenarioError` for a
        key or value that is not possible, and `EmulationError` if the program has ended.

        >>> import anabranch
        >>> with anabranch.emulate("two-paths.toml", to=7000) as network:  # doctest: +SKIP
        ...     network.set("links.wifi.rate", "2 Mbit/s")
        ...     network.set("links.wifi.loss_percent", 3)
        """
        stem, plain = _toml.with_unit(key, value)
        text = plain if isinstance(plain, str) else _toml.inline(plain)
        first, _, rest = stem.partition(".")
        link, _, what = rest.rpartition(".")
        if first != "links" or what not in _CHANGEABLE:
            known = ", ".join(f"links.NAME.{name}" for name in _CHANGEABLE)
            raise ScenarioError(f"{key}: the emulator changes only {known}", key=key)
        name = link.strip('"')
        ways = [
            f"{route['name']} {way}"
            for route in self._routes
            for way, links in (("there", route["forward"]), ("back", route["reverse"]))
            if name in links
        ]
        if not ways:
            raise self._unknown(key, "link of a route", name, self._scenario.link_names)
        self._change(key, [f"{way} {what} {text}" for way in ways])

    def down(self, route: str) -> None:
        """Let a route lose all packets, in both directions, until `up`. Raises as `set` does.

        >>> import anabranch
        >>> with anabranch.emulate("two-paths.toml", to=7000) as network:  # doctest: +SKIP
        ...     network.down("wifi")
        """
        self._change_route(route, "down")

    def up(self, route: str) -> None:
        """Let a route carry packets again after `down`. Raises as `set` does.

        >>> import anabranch
        >>> with anabranch.emulate("two-paths.toml", to=7000) as network:  # doctest: +SKIP
        ...     network.up("wifi")
        """
        self._change_route(route, "up")

    def log(self) -> list[str]:
        """Return the lines that the program has printed: addresses, changes, warnings.

        After the block these are followed by the packets that passed and were lost.

        >>> import anabranch
        >>> with anabranch.emulate("two-paths.toml", to=7000) as network:  # doctest: +SKIP
        ...     pass
        >>> network.log()[-1]  # doctest: +SKIP
        'lte, back:  0 packets in, 0 out, 0 lost; waited 0.0 ms on average, 0.0 ms at most'
        """
        with self._changed:
            return list(self._lines)

    def __enter__(self) -> Emulation:
        if self._process is not None:
            raise EmulationError("this network has run already: call emulate again")
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # The process itself, since the thread may not have noticed yet.
        has_ended = self._process is not None and self._process.poll() is not None
        self._end()
        if has_ended and error is None:
            raise self._ended()

    def _start(self) -> None:
        scenario = self._scenario
        overrides = list(scenario._overrides)
        text, traces = _native.network_toml(scenario._file, scenario._text, overrides)
        self._folder = tempfile.TemporaryDirectory(prefix="anabranch-")
        file = Path(self._folder.name) / f"{scenario.name}.toml"
        file.write_text(text, encoding="utf-8")
        # Without Python its standard input ends, and with it the program.
        settings = [part for trace in traces for part in ("--set", trace)]
        options = [*settings, *self._options, "--control", "0", "--until-input-ends"]
        self._process = subprocess.Popen(
            [*self._command, str(file), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            # Ctrl-C is for Python, which then ends the program.
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, name="emulation", daemon=True)
        self._reader.start()
        with self._changed:
            self._changed.wait_for(lambda: self._is_ready() or self._has_ended, self._timeout_s)
            is_ready, has_ended = self._is_ready(), self._has_ended
        if has_ended:
            raise self._ended()
        if not is_ready:
            raise EmulationError(f"the emulator was not ready within {self._timeout_s:g} s")

    def _is_ready(self) -> bool:
        return len(self._ports) == len(self._routes) and bool(self._control)

    def _read(self) -> None:
        """Read the program's lines until it ends, in a thread."""
        assert self._process is not None and self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                with self._changed:
                    self._note(line.rstrip("\n"))
                    self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def _note(self, line: str) -> None:
        self._lines.append(line)
        if line.startswith(_CONTROL):
            self._control = line.removeprefix(_CONTROL).rstrip("/")
        end = f" to {self._to}"
        for route in self._routes:
            begin = f"{route['name']}: "
            if line.startswith(begin) and line.endswith(end):
                _, _, port = line[len(begin) : -len(end)].rpartition(":")
                if port.isdecimal():
                    self._ports[route["name"]] = int(port)

    def _change_route(self, route: str, what: str) -> None:
        names = [known["name"] for known in self._routes]
        if route not in names:
            raise self._unknown(route, "route", route, names)
        self._change(route, [f"{route} {what}"])

    def _change(self, key: str, lines: list[str]) -> None:
        if self._process is None or self._has_ended:
            raise self._ended()
        # Here, since it loads ssl: importing Anabranch would take a sixth longer.
        import http.client

        connection = http.client.HTTPConnection(self._control, timeout=_PATIENCE_S)
        try:
            connection.request("POST", "/", "\n".join(lines).encode())
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace").strip()
        except (OSError, http.client.HTTPException) as error:
            raise EmulationError(f"the emulator does not answer: {error}") from error
        finally:
            connection.close()
        if answer.status != 200:
            known, near = known_and_near(text)
            raise ScenarioError(text, key=key, known=known, suggestion=near)

    def _end(self) -> None:
        """End the program, whatever happens."""
        process = self._process
        try:
            if process is not None:
                try:
                    if process.stdin is not None:
                        process.stdin.close()
                    process.wait(_PATIENCE_S)
                except subprocess.TimeoutExpired:
                    pass
                finally:
                    process.kill()
                    process.wait()
            if self._reader is not None:
                self._reader.join(_PATIENCE_S)
        finally:
            if self._folder is not None:
                self._folder.cleanup()

    def _ended(self) -> EmulationError:
        if self._process is None:
            return EmulationError("the network does not run: use it in a `with` block")
        said = "\n".join(self.log())
        return EmulationError(f"the emulator has ended: {said}".rstrip(": "))

    @staticmethod
    def _unknown(key: str, what: str, name: str, known: list[str]) -> ScenarioError:
        near = _native.nearest_name(name, known)
        hint = f"; did you mean {near!r}?" if near else ""
        text = f"no {what} is called {name!r}; known are {', '.join(known)}{hint}"
        return ScenarioError(text, key=key, known=known, suggestion=near)


def _find(named: str | os.PathLike[str] | None) -> str:
    """Return the path of the program."""
    places = [
        ("program", None if named is None else os.fspath(named)),
        ("the environment's ANABRANCH", os.environ.get("ANABRANCH")),
    ]
    for place, name in places:
        if name:
            found = shutil.which(name)
            if found is None:
                raise ProgramNotFound(f"{place} is {name!r}, and there is no such program")
            return found
    found = shutil.which("anabranch")
    if found is None:
        raise ProgramNotFound("it is not on the PATH")
    return found
