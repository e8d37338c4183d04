#!/usr/bin/env python3
"""A small sender of SRTLA, for tests: srtla-sender.py SRT-PORT HOST:PORT LOCAL-ADDRESS...

Takes one SRT caller's datagrams at 127.0.0.1:SRT-PORT, and sends them by links from the local
addresses in turn. Says which links have registered and how many packets were acknowledged. The
first link sends nothing from the second second to the fifth.
"""
import os
import select
import socket
import struct
import sys
import time

REG1, REG2, REG3, KEEPALIVE, ACK = 0x9200, 0x9201, 0x9202, 0x9000, 0x9100


def main():
    srt_port, (host, port) = int(sys.argv[1]), sys.argv[2].split(":")
    local = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    local.bind(("127.0.0.1", srt_port))
    links = []
    for address in sys.argv[3:]:
        link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        link.bind((address, 0))
        link.connect((host, int(port)))
        links.append(link)
    links[0].send(struct.pack(">H", REG1) + os.urandom(256))
    caller, turn, acked = None, 0, [0] * len(links)
    registered, keepalive_at, began_at = set(), 0, None
    while True:
        now = time.monotonic()
        if now >= keepalive_at:
            keepalive_at = now + 1
            for index in registered:
                # Keepalives with a time, like those of Moblin and irlserver.
                links[index].send(struct.pack(">HQ", KEEPALIVE, int(now * 1000)))
        for ready in select.select([local, *links], [], [], 0.1)[0]:
            if ready is local:
                datagram, caller = local.recvfrom(2000)
                began_at = began_at or now
                is_out = 2 <= now - began_at < 5
                usable = [index for index in sorted(registered) if index > 0 or not is_out]
                if usable:
                    turn += 1
                    links[usable[turn % len(usable)]].send(datagram)
                continue
            datagram = ready.recv(2000)
            kind = struct.unpack(">H", datagram[:2])[0]
            if kind == REG2:
                for link in links:
                    link.send(datagram)
            elif kind == REG3:
                registered.add(links.index(ready))
                print(f"{len(registered)} links have registered", flush=True)
            elif kind == ACK:
                acked[links.index(ready)] += (len(datagram) - 4) // 4
                if min(acked) >= 200:
                    print("each link is acknowledged", flush=True)
                    acked = [-1 << 60] * len(links)
            elif kind != KEEPALIVE and caller:
                local.sendto(datagram, caller)


main()
