#!/usr/bin/env python3
"""Players of a stream by WHEP, of another implementation of WebRTC than ours and the browsers'.

Each second it prints the pictures so far of each player. At the end it deletes its viewers.

Usage: whep-player.py URL PLAYERS SECONDS [TOKEN]
"""

import asyncio
import sys
from urllib.parse import urljoin

import aiohttp
from aiortc import RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError


class Player:
    """One viewer, which decodes each picture."""

    def __init__(self) -> None:
        self.pictures = 0
        self.sounds = 0
        self.peer = RTCPeerConnection()
        self.peer.addTransceiver("video", direction="recvonly")
        self.peer.addTransceiver("audio", direction="recvonly")
        self.peer.on("track", lambda track: asyncio.ensure_future(self.watch(track)))

    async def watch(self, track) -> None:
        while True:
            try:
                await track.recv()
            except MediaStreamError:
                return
            if track.kind == "video":
                self.pictures += 1
            else:
                self.sounds += 1

    async def offer(self, http: aiohttp.ClientSession, url: str) -> str:
        """Offers, and returns the address of the viewer."""
        await self.peer.setLocalDescription(await self.peer.createOffer())
        sdp = self.peer.localDescription.sdp
        kind = {"Content-Type": "application/sdp"}
        async with http.post(url, data=sdp, headers=kind) as answer:
            text = await answer.text()
            if answer.status != 201:
                raise SystemExit(f"refused: {answer.status} {text}")
            location = urljoin(str(answer.url), answer.headers["Location"])
        await self.peer.setRemoteDescription(RTCSessionDescription(text, "answer"))
        return location


async def main() -> None:
    url, count, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    headers = {"Authorization": f"Bearer {sys.argv[4]}"} if len(sys.argv) > 4 else {}
    players = [Player() for _ in range(count)]
    async with aiohttp.ClientSession(headers=headers) as http:
        locations = [await player.offer(http, url) for player in players]
        for _ in range(int(seconds)):
            await asyncio.sleep(1)
            pictures = " ".join(str(player.pictures) for player in players)
            print(f"{pictures} pictures, {players[0].sounds} sounds", flush=True)
        for location in locations:
            async with http.delete(location) as answer:
                print(f"left: {answer.status}", flush=True)
    await asyncio.gather(*(player.peer.close() for player in players))


asyncio.run(main())
