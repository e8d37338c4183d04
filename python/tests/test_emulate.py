"""The emulator: packets through a scenario's network in real time."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import anabranch
from anabranch import Scenario, _emulate

ROOT = Path(__file__).parents[2]
#: The program, if it is built with the emulator.
PROGRAM = os.environ.get("ANABRANCH", str(ROOT / "target/debug/anabranch"))


def _has_emulator() -> bool:
    try:
        command = [PROGRAM, "emulate", "--help"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


needs_program = pytest.mark.skipif(
    not _has_emulator(), reason=f"{PROGRAM} is not built with the feature emulate"
)

NETWORK = Scenario(
    {
        "title": "Two ways",
        "duration_s": 10,
        "links": {
            "near": {"rate_mbps": 2, "delay_ms": 30},
            "void": {"rate_mbps": 2, "loss": 1.0},
            "back": {"delay_ms": 10},
        },
        "routes": {
            "wifi": {"forward": ["near"], "reverse": ["back"]},
            "lte": {"forward": ["void"], "reverse": ["back"]},
        },
        "flows": [{"paths": ["wifi", "lte"], "source": "ideal"}],
    }
)


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        bound.settimeout(20)
        yield bound


def _round_trip_s(server: socket.socket, port: int) -> float:
    """Send a packet to a route's port, answer it, and return the time that this took."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(20)
        sent_at = time.monotonic()
        client.sendto(b"asked", ("127.0.0.1", port))
        packet, source = server.recvfrom(100)
        assert packet == b"asked"
        server.sendto(b"answered", source)
        assert client.recv(100) == b"answered"
        return time.monotonic() - sent_at


def _is_running(process_id: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def _wait_for_end(process_id: int) -> None:
    until = time.monotonic() + 20
    while _is_running(process_id):
        assert time.monotonic() < until, "the emulator is still running"
        time.sleep(0.02)


@needs_program
def test_packets_pass_the_links_and_changes_hold_at_once(server: socket.socket) -> None:
    to = server.getsockname()[1]
    with anabranch.emulate(NETWORK, to, program=PROGRAM) as network:
        assert sorted(network.ports) == ["lte", "wifi"]
        assert _round_trip_s(server, network.ports["wifi"]) >= 0.04
        network.set("links.near.delay_ms", 90)
        assert _round_trip_s(server, network.ports["wifi"]) >= 0.1
        # The link of two routes changes in both.
        network.set("links.back.delay", "60 ms")
        network.set("links.void.loss_percent", 0)
        assert _round_trip_s(server, network.ports["lte"]) >= 0.06
        assert _round_trip_s(server, network.ports["wifi"]) >= 0.15
        # 33 bytes with headers take 132 ms.
        network.set("links.void.rate", "2 kbit/s")
        assert _round_trip_s(server, network.ports["lte"]) >= 0.19
        assert "lte, there: rate 2 kbit/s" in network.log()
        assert "wifi, back: delay 60 ms" in network.log()
        network.down("wifi")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.sendto(b"lost", ("127.0.0.1", network.ports["wifi"]))
        # The emulator reads all its sockets before this packet leaves.
        _round_trip_s(server, network.ports["lte"])
        network.up("wifi")
        network.set("links.near.delay_ms", 0)
        assert _round_trip_s(server, network.ports["wifi"]) >= 0.06
    assert any(line.startswith("wifi, back:  4 packets in, 4 out") for line in network.log())


@needs_program
def test_impossible_changes_name_what_is_possible(server: socket.socket) -> None:
    with anabranch.emulate(NETWORK, server.getsockname()[1], program=PROGRAM) as network:
        for key, value, text in [
            ("links.nera.rate", "2 Mbit/s", "did you mean 'near'"),
            ("links.near.queue", "2 kB", "links.NAME.rate"),
            ("flows.0.scheduler", "wrr", "links.NAME.rate"),
            ("links.near.rate", 2, "write a number and one of the units"),
            ("links.near.loss", 3.0, "as in 3% or 0.03"),
        ]:
            with pytest.raises(anabranch.ScenarioError, match=text) as caught:
                network.set(key, value)
            assert caught.value.key == key
        with pytest.raises(anabranch.ScenarioError, match="no route is called 'dsl'") as caught:
            network.down("dsl")
        assert caught.value.known == ["wifi", "lte"] or caught.value.known == ["lte", "wifi"]
    with pytest.raises(anabranch.EmulationError, match="has ended"):
        network.up("wifi")


@needs_program
def test_a_trace_and_an_algorithm_of_a_file_elsewhere(
    tmp_path: Path, server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Mine(anabranch.Scheduler):
        def cost(self, packet: anabranch.Packet, path: anabranch.Path) -> float:
            return path.transfer_cost_s

    (tmp_path / "study").mkdir()
    (tmp_path / "study/up.trace").write_text("1\n2\n", encoding="utf-8")
    rate = 'rate = "2000000 bit/s"\ndelay'
    text = NETWORK.to_toml().replace(rate, 'trace = "up.trace"\ndelay')
    assert "trace" in text
    (tmp_path / "study/network.toml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    scenario = Scenario.load("study/network.toml").with_({"flows.0.scheduler": Mine})
    with anabranch.emulate(scenario, server.getsockname()[1], program=PROGRAM) as network:
        assert _round_trip_s(server, network.ports["wifi"]) >= 0.04


@needs_program
def test_ports_may_be_chosen(server: socket.socket) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    to = f"127.0.0.1:{server.getsockname()[1]}"
    with anabranch.emulate(NETWORK, to, ports={"lte": port}, program=PROGRAM) as network:
        assert network.ports["lte"] == port != network.ports["wifi"]


@needs_program
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_the_program_ends_with_the_block(
    server: socket.socket, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH", PROGRAM)
    network = anabranch.emulate(NETWORK, server.getsockname()[1])
    with pytest.raises(error):
        with network:
            assert network._process is not None
            process_id = network._process.pid
            assert _is_running(process_id)
            raise error
    assert not _is_running(process_id)
    with pytest.raises(anabranch.EmulationError, match="call emulate again"):
        network.__enter__()


@needs_program
def test_the_program_ends_with_python(tmp_path: Path) -> None:
    code = f"""
        import os, signal
        import anabranch
        scenario = anabranch.Scenario.from_toml({NETWORK.to_toml()!r})
        with anabranch.emulate(scenario, 9, program={PROGRAM!r}) as network:
            print(network._process.pid, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    killed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    _wait_for_end(int(killed.stdout))


@needs_program
def test_a_program_that_dies_is_reported() -> None:
    network = anabranch.emulate(NETWORK, 9, program=PROGRAM)
    with pytest.raises(anabranch.EmulationError, match="has ended"):
        with network:
            assert network._process is not None
            network._process.kill()
            network._process.wait()
    with pytest.raises(anabranch.EmulationError, match="2 links one way"):
        two = {"routes.wifi.forward": ["near", "void"], "routes.lte.forward": ["back"]}
        with anabranch.emulate(NETWORK.with_(two), 9, program=PROGRAM):
            pass


def _script(folder: Path, text: str) -> str:
    file = folder / "anabranch"
    file.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    file.chmod(0o755)
    return str(file)


def test_a_program_that_does_not_start_is_reported_with_its_words(tmp_path: Path) -> None:
    program = _script(tmp_path, "echo 'this build is without `emulate`' >&2; exit 2")
    with pytest.raises(anabranch.EmulationError, match="this build is without `emulate`"):
        with anabranch.emulate(NETWORK, 9, program=program):
            pass


def test_a_program_that_is_never_ready_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_emulate, "_PATIENCE_S", 0.2)
    network = anabranch.emulate(
        NETWORK, 9, program=_script(tmp_path, "exec sleep 600"), timeout_s=0.1
    )
    with pytest.raises(anabranch.EmulationError, match="not ready within 0.1 s"):
        network.__enter__()
    assert network._process is not None and network._process.returncode == -signal.SIGKILL


def test_a_missing_program_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("ANABRANCH", raising=False)
    with pytest.raises(anabranch.ProgramNotFound, match="on the PATH.*cargo build"):
        anabranch.emulate(NETWORK, 9)
    monkeypatch.setenv("ANABRANCH", str(tmp_path / "none"))
    with pytest.raises(anabranch.ProgramNotFound, match="ANABRANCH is '.*none'"):
        anabranch.emulate(NETWORK, 9)
    with pytest.raises(FileNotFoundError, match="program is 'none'"):
        anabranch.emulate(NETWORK, 9, program="none")
    swept = NETWORK.with_({"sweep": {"links.near.rate_mbps": [1, 2]}})
    with pytest.raises(ValueError, match="has a \\[sweep\\]"):
        anabranch.emulate(swept, 9)
    monkeypatch.setenv("ANABRANCH", _script(tmp_path, "exit 0"))
    with pytest.raises(anabranch.EmulationError, match="use it in a `with` block"):
        anabranch.emulate(NETWORK, 9).down("wifi")
