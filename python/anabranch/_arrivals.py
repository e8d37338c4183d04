"""Arrivals of IP packets in captures."""

from __future__ import annotations

import ipaddress
import warnings
from array import array
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import _trace_files as files
from ._errors import TraceError, TraceWarning
from ._pcap import Captured, packets
from ._trace_files import Pieces

#: A packet of a link has at most the 9,216 bytes of jumbo frames; longer ones were merged.
_LONGEST_IP_BYTES = 9_216
_IPV4, _IPV6 = 0x0800, 0x86DD
_VLAN = (0x8100, 0x88A8)
#: Sessions of PPP over Ethernet, and PPP's protocols.
_PPPOE = 0x8864
_PPP = {0x21: _IPV4, 0x57: _IPV6}
#: Protocols whose headers begin with two ports: TCP, UDP, DCCP, SCTP.
_WITH_PORTS = (6, 17, 33, 132)
#: Extension headers of IPv6 with a length: hop-by-hop, routing, destination options.
_EXTENSIONS = (0, 43, 60)
_FRAGMENT = 44
#: Time for which a datagram's number stands for it: RFC 8200, 4.5 gives up reassembly after 60 s.
_REASSEMBLY_NS = 60_000_000_000
#: Most datagrams of which fragments are followed at a time.
_MAX_DATAGRAMS = 65_536


class Ip(NamedTuple):
    """An IP packet: its length, addresses, ports if any, and its datagram if it is a fragment."""

    length: int
    source: bytes
    destination: bytes
    ports: tuple[int, int] | None
    #: Identification and protocol, of a fragment.
    datagram: tuple[int, int] | None
    #: Whether it is the first fragment, or a whole packet.
    is_first: bool


def _link(packet: Captured, path: str) -> tuple[int, int] | None:
    """Return the length of the headers before IP, and the protocol; None without one."""
    found = _frame(packet, path)
    if found is None or found[1] != _PPPOE:
        return found
    # Version, code, session and length (6 bytes), then PPP's protocol: RFC 2516.
    at = found[0] + 6
    return at + 2, _PPP.get(int.from_bytes(packet.head[at : at + 2], "big"), 0)


def _frame(packet: Captured, path: str) -> tuple[int, int] | None:
    head, kind = packet.head, packet.link_type
    if kind == 1:
        at = 12
        while len(head) >= at + 2:
            protocol = int.from_bytes(head[at : at + 2], "big")
            if protocol not in _VLAN:
                return at + 2, protocol
            at += 4
        return None
    if kind in (12, 14, 101, 228, 229):
        return 0, _version(head, 0)
    if kind in (0, 108):
        # The family of addresses differs between systems.
        return 4, _version(head, 4)
    if kind == 9:
        return 2, _PPP.get(int.from_bytes(head[:2], "big"), 0)
    if kind == 113:
        return 16, int.from_bytes(head[14:16], "big")
    if kind == 276:
        return 20, int.from_bytes(head[0:2], "big")
    known = "Ethernet, raw IP, PPP, loopback and Linux's cooked mode"
    raise TraceError(f"link type {kind} is none of {known}", path, None, packet.offset)


def _version(head: bytes, at: int) -> int:
    version = head[at] >> 4 if len(head) > at else 0
    return {4: _IPV4, 6: _IPV6}.get(version, 0)


def ip_of(packet: Captured, path: str) -> Ip | None:
    """Return the IP packet of a captured one; None for other protocols.

    Raises `TraceError` for an unknown link, and for a capture that is cut before the addresses.
    """
    found = _link(packet, path)
    if found is None or found[1] not in (_IPV4, _IPV6):
        return None
    at, is_v4 = found[0], found[1] == _IPV4
    ip = packet.head[at:]
    if len(ip) < (20 if is_v4 else 40):
        if packet.length - at < (20 if is_v4 else 40):
            return None
        reason = f"only {len(packet.head)} bytes were captured: addresses need 96 (tcpdump -s 96)"
        raise TraceError(reason, path, None, packet.offset)
    # A sender's own capture may have no length, before its interface cuts the segment.
    stated = int.from_bytes(ip[2:4] if is_v4 else ip[4:6], "big") + (0 if is_v4 else 40)
    is_stated = stated > (0 if is_v4 else 40)
    length = min(stated, packet.length - at) if is_stated else packet.length - at
    if length < 1:
        return None
    return _of_v4(ip, length) if is_v4 else _of_v6(ip, length)


def _of_v4(ip: bytes, length: int) -> Ip:
    flags = int.from_bytes(ip[6:8], "big")
    is_first = flags & 0x1FFF == 0
    # More fragments, or not the first one.
    is_fragment = flags & 0x3FFF != 0
    datagram = (int.from_bytes(ip[4:6], "big"), ip[9]) if is_fragment else None
    ports = _ports(ip[9], ip[4 * (ip[0] & 15) :]) if is_first else None
    return Ip(length, ip[12:16], ip[16:20], ports, datagram, is_first)


def _of_v6(ip: bytes, length: int) -> Ip:
    protocol, at = ip[6], 40
    datagram, is_first = None, True
    while len(ip) > at + 7:
        if protocol == _FRAGMENT:
            # RFC 8200, 4.5: the offset has the upper 13 of 16 bits.
            is_first = int.from_bytes(ip[at + 2 : at + 4], "big") & 0xFFF8 == 0
            datagram = (int.from_bytes(ip[at + 4 : at + 8], "big"), ip[at])
            protocol, at = ip[at], at + 8
        elif protocol in _EXTENSIONS:
            protocol, at = ip[at], at + 8 * (ip[at + 1] + 1)
        else:
            break
    ports = _ports(protocol, ip[at:]) if is_first else None
    return Ip(length, ip[8:24], ip[24:40], ports, datagram, is_first)


def _ports(protocol: int, rest: bytes) -> tuple[int, int] | None:
    if protocol not in _WITH_PORTS or len(rest) < 4:
        return None
    return int.from_bytes(rest[:2], "big"), int.from_bytes(rest[2:4], "big")


class _Datagram(NamedTuple):
    """A datagram of which fragments were seen."""

    #: Of its latest fragment, in ns.
    time_ns: int
    #: Whether its port is the chosen one; None: its first fragment was not seen.
    is_chosen: bool | None
    #: Times in ns and lengths of the fragments before the first one.
    early: list[tuple[int, int]]


class _Ports:
    """Choice of packets by a port, which only the first fragment of a datagram has."""

    def __init__(self, port: int | None) -> None:
        self._port = port
        self._datagrams: OrderedDict[tuple[Any, ...], _Datagram] = OrderedDict()
        #: Fragments whose first one was not captured.
        self.lost_count = 0

    def chosen(self, packet: Captured, ip: Ip) -> list[tuple[int, int]]:
        """Return times and lengths of the packets that count now: this one and earlier ones."""
        own = (packet.time_ns, ip.length)
        if self._port is None:
            return [own]
        is_chosen = ip.ports is not None and self._port in ip.ports
        if ip.datagram is None:
            return [own] if is_chosen else []
        key = (ip.source, ip.destination, *ip.datagram)
        known = self._datagrams.pop(key, None)
        if known is not None and abs(packet.time_ns - known.time_ns) > _REASSEMBLY_NS:
            self._forget(known)
            known = None
        early = known.early if known is not None else []
        if not ip.is_first:
            if known is None or known.is_chosen is None:
                # A datagram has at most 8,192 fragments.
                early = [*early, own][-8_192:]
                self._keep(key, _Datagram(packet.time_ns, None, early))
                return []
            self._keep(key, _Datagram(packet.time_ns, known.is_chosen, []))
            return [own] if known.is_chosen else []
        self._keep(key, _Datagram(packet.time_ns, is_chosen, []))
        return [*early, own] if is_chosen else []

    def _keep(self, key: tuple[Any, ...], datagram: _Datagram) -> None:
        self._datagrams[key] = datagram
        if len(self._datagrams) > _MAX_DATAGRAMS:
            self._forget(self._datagrams.popitem(last=False)[1])

    def _forget(self, datagram: _Datagram) -> None:
        self.lost_count += len(datagram.early)

    def end(self) -> None:
        """Count the fragments whose first one did not come."""
        for datagram in self._datagrams.values():
            self._forget(datagram)


def arrivals(path: str, source: str | None, destination: str | None, port: int | None) -> Pieces:
    """Return the bytes of IP packets that match, each when it was captured."""
    is_from, is_to = _matcher("source", source), _matcher("destination", destination)
    times, sizes = array("q"), array("d")
    begin: int | None = None
    merged = 0
    ports = _Ports(port)
    for number, packet in enumerate(packets(path), 1):
        if number > files.MAX_ROWS:
            reason = f"there are more than {files.MAX_ROWS} packets: cut it by editcap"
            raise TraceError(reason, path, None, packet.offset)
        ip = ip_of(packet, path)
        if ip is None or not (is_from(ip.source) and is_to(ip.destination)):
            continue
        for time_ns, length in ports.chosen(packet, ip):
            begin = time_ns if begin is None else begin
            if abs(time_ns - begin) > 1e6 * files.MAX_MS:
                reason = "the packet is more than 49.7 days from the first one"
                raise TraceError(reason, path, None, packet.offset)
            times.append(time_ns - begin)
            sizes.append(length)
            merged += length > _LONGEST_IP_BYTES
    ports.end()
    if merged:
        text = f"{merged} packets are longer than {_LONGEST_IP_BYTES} bytes: the machine merged "
        text += "them (GRO, TSO), and their times are not those of the link"
        warnings.warn(text, TraceWarning, 3)
    if ports.lost_count:
        text = f"{ports.lost_count} fragments have no port, as their first one was not captured: "
        text += "they are left out; without port= they count"
        warnings.warn(text, TraceWarning, 3)
    return _sorted(times, sizes, path)


def _sorted(times: array[int], sizes: array[float], path: str) -> Pieces:
    """Return packets in the order of their times: cores of a machine capture out of order."""
    if not times or min(times) == max(times):
        raise TraceError("no packets match over a time above 0", path)
    at = np.frombuffer(times, dtype=np.int64)
    order = np.argsort(at, kind="stable")
    ordered = (at[order] - at[order[0]]) / 1e6
    return files.events(ordered, np.frombuffer(sizes)[order])


def _matcher(name: str, text: str | None) -> Callable[[bytes], bool]:
    """Return whether an address is that of a text: an address, or a network such as 10.0.0.0/8."""
    if text is None:
        return lambda _: True
    try:
        network: Any = ipaddress.ip_network(text, strict=False)
    except ValueError:
        reason = f"{name}: {text!r} is no address or network such as 192.0.2.1 or 10.0.0.0/8"
        raise ValueError(reason) from None
    known: dict[bytes, bool] = {}

    def matches(address: bytes) -> bool:
        if address not in known:
            if len(known) > 100_000:
                known.clear()
            known[address] = ipaddress.ip_address(address) in network
        return known[address]

    return matches
