"""A WHIP service for scripts/test-real.sh: whip-service.py ADDRESS PORT PUBLISHER

/ is a page that publishes a moving picture by WHIP (RFC 9725). Every second the service prints the
number of pictures that it has decoded, and the longest time between two of them. Of the addresses
that both ends offer, it uses ADDRESS and PUBLISHER alone: others lead past the tunnel.
"""

import asyncio
import sys
import time

from aiohttp import web
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription

PAGE = """<!doctype html><title>camera</title><canvas id="picture" width="320" height="240"></canvas>
<script>
const picture = document.getElementById('picture'), pen = picture.getContext('2d');
let count = 0;
setInterval(() => {
    pen.fillStyle = `hsl(${(count * 7) % 360} 80% 50%)`;
    pen.fillRect((count * 5) % 320, (count * 3) % 240, 40, 40);
    count += 1;
}, 40);
(async () => {
    const peer = new RTCPeerConnection();
    peer.addTrack(picture.captureStream(25).getVideoTracks()[0]);
    await peer.setLocalDescription(await peer.createOffer());
    await new Promise((resolve) => {
        if (peer.iceGatheringState === 'complete') resolve();
        peer.onicegatheringstatechange = () => peer.iceGatheringState === 'complete' && resolve();
    });
    const answer = await fetch('whip', {
        method: 'POST',
        headers: { 'content-type': 'application/sdp' },
        body: peer.localDescription.sdp,
    });
    await peer.setRemoteDescription({ type: 'answer', sdp: await answer.text() });
})();
</script>
"""


def with_address(sdp: str, address: str) -> str:
    """Removes candidates with other addresses."""
    lines = sdp.splitlines()
    kept = (line for line in lines if "a=candidate" not in line or f" {address} " in line)
    return "\r\n".join(kept) + "\r\n"


class Service:
    def __init__(self, address: str, publisher: str) -> None:
        self.address = address
        self.publisher = publisher
        self.sessions: list[RTCPeerConnection] = []
        self.pictures = 0
        self.longest_pause = 0.0
        self.receiving: asyncio.Task[None] | None = None

    async def page(self, _request: web.Request) -> web.Response:
        return web.Response(text=PAGE, content_type="text/html")

    async def publish(self, request: web.Request) -> web.Response:
        session = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.sessions.append(session)

        @session.on("track")
        def on_track(track) -> None:
            self.receiving = asyncio.create_task(self.receive(track))

        offer = with_address(await request.text(), self.publisher)
        await session.setRemoteDescription(RTCSessionDescription(sdp=offer, type="offer"))
        await session.setLocalDescription(await session.createAnswer())
        return web.Response(
            status=201,
            text=with_address(session.localDescription.sdp, self.address),
            content_type="application/sdp",
            headers={"Location": f"/whip/{len(self.sessions)}"},
        )

    async def receive(self, track) -> None:
        last_at = None
        while True:
            await track.recv()
            now = time.monotonic()
            if last_at is not None:
                self.longest_pause = max(self.longest_pause, now - last_at)
            last_at = now
            self.pictures += 1

    async def report(self) -> None:
        while True:
            await asyncio.sleep(1)
            pause = round(self.longest_pause * 1000)
            print(f"{self.pictures} pictures, longest pause {pause} ms", flush=True)


async def main() -> None:
    address, port, publisher = sys.argv[1:]
    service = Service(address, publisher)
    app = web.Application()
    app.add_routes([web.get("/", service.page), web.post("/whip", service.publish)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, address, int(port)).start()
    print("listening", flush=True)
    await service.report()


asyncio.run(main())
