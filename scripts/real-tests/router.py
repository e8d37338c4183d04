#!/usr/bin/env python3
"""A home's router that opens ports when it is asked: by PCP, NAT-PMP or UPnP.

usage: router.py pcp|natpmp|upnp ADDRESS

It listens at ADDRESS, names 203.0.113.9 as its address outside, and prints a line for each request:
`open PORT for SECONDS` and `close PORT`.
"""

import http.server
import re
import socket
import struct
import sys
import threading

OUTSIDE = socket.inet_aton("203.0.113.9")
SERVICE = "urn:schemas-upnp-org:service:WANIPConnection:1"
ACTIONS = {
    "AddPortMapping": [
        "NewRemoteHost",
        "NewExternalPort",
        "NewProtocol",
        "NewInternalPort",
        "NewInternalClient",
        "NewEnabled",
        "NewPortMappingDescription",
        "NewLeaseDuration",
    ],
    "DeletePortMapping": ["NewRemoteHost", "NewExternalPort", "NewProtocol"],
    "GetExternalIPAddress": [],
}


def tell(port: int, seconds: int) -> None:
    """Prints a request."""
    print(f"open {port} for {seconds}" if seconds else f"close {port}", flush=True)


def pcp(request: bytes) -> bytes:
    """Answers a MAP request (RFC 6887, sections 7.2 and 11.1)."""
    if request[0] != 2:
        return b"\x02\x80\x00\x01" + bytes(20)
    (seconds,) = struct.unpack(">I", request[4:8])
    (port,) = struct.unpack(">H", request[40:42])
    tell(port, seconds)
    head = bytes([2, 0x81, 0, 0]) + struct.pack(">II", seconds, 7) + bytes(12)
    return head + request[24:42] + struct.pack(">H", port) + bytes(10) + b"\xff\xff" + OUTSIDE


def natpmp(request: bytes) -> bytes:
    """Answers a request (RFC 6886, sections 3.2, 3.3 and 3.5)."""
    if request[0] != 0:
        return bytes([0, 128, 0, 1]) + struct.pack(">I", 7)
    head = bytes([0, 128 + request[1], 0, 0]) + struct.pack(">I", 7)
    if request[1] == 0:
        return head + OUTSIDE
    port, _, seconds = struct.unpack(">HHI", request[4:12])
    tell(port, seconds)
    return head + struct.pack(">HHI", port, port if seconds else 0, seconds)


def answer_requests(address: str, answer) -> None:
    """Answers datagrams at port 5351."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 5351))
    while True:
        request, source = server.recvfrom(1_100)
        server.sendto(answer(request), source)


class Device(http.server.BaseHTTPRequestHandler):
    """The pages and actions of a device of UPnP."""

    def send(self, text: str) -> None:
        body = ('<?xml version="1.0"?>' + text).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if "scpd" in self.path:

            def argument(name: str) -> str:
                return f"<argument><name>{name}</name><direction>in</direction></argument>"

            actions = "".join(
                f"<action><name>{name}</name><argumentList>"
                + "".join(argument(word) for word in words)
                + "</argumentList></action>"
                for name, words in ACTIONS.items()
            )
            self.send(f"<scpd><actionList>{actions}</actionList></scpd>")
            return
        service = (
            f"<service><serviceType>{SERVICE}</serviceType>"
            "<controlURL>/control</controlURL><SCPDURL>/scpd.xml</SCPDURL></service>"
        )
        inner = f"<device><serviceList>{service}</serviceList></device>"
        middle = f"<device><deviceList>{inner}</deviceList></device>"
        self.send(f"<root><device><deviceList>{middle}</deviceList></device></root>")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        action = next(name for name in ACTIONS if f":{name} " in body or f":{name}>" in body)
        port = re.search("<NewExternalPort[^>]*>([0-9]+)<", body)
        seconds = re.search("<NewLeaseDuration[^>]*>([0-9]+)<", body)
        if port:
            tell(int(port[1]), int(seconds[1]) if seconds else 0)
        outside = f"<NewExternalIPAddress>{socket.inet_ntoa(OUTSIDE)}</NewExternalIPAddress>"
        self.send(
            '<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body>'
            f'<u:{action}Response xmlns:u="{SERVICE}">{outside}</u:{action}Response>'
            "</s:Body></s:Envelope>"
        )

    def log_message(self, *_) -> None:
        """Says nothing."""


def upnp(address: str) -> None:
    """Answers searches of the group, and the requests of HTTP that follow."""
    device = http.server.ThreadingHTTPServer((address, 0), Device)
    threading.Thread(target=device.serve_forever, daemon=True).start()
    group = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    group.bind(("", 1900))
    member = socket.inet_aton("239.255.255.250") + socket.inet_aton(address)
    group.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
    location = f"http://{address}:{device.server_port}/root.xml"
    answer = (
        f"HTTP/1.1 200 OK\r\nLOCATION: {location}\r\n"
        "ST: urn:schemas-upnp-org:device:InternetGatewayDevice:1\r\n\r\n"
    )
    while True:
        _, source = group.recvfrom(2_000)
        from_here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        from_here.bind((address, 0))
        from_here.sendto(answer.encode(), source)
        from_here.close()


if __name__ == "__main__":
    kind, own = sys.argv[1:]
    print("listening", flush=True)
    if kind == "upnp":
        upnp(own)
    else:
        answer_requests(own, {"pcp": pcp, "natpmp": natpmp}[kind])
