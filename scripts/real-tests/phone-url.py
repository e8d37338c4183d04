#!/usr/bin/env python3
"""Reads the lines of `recv --pair`, and prints HOST:PORT?streamid=…&passphrase=… of a stream's
link as the app would call it: Moblin's object, or the fields of Larix Grove."""

import json
import sys
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit


def moblin(link: str) -> tuple[str, str, str, str]:
    streams = json.loads(unquote(link.removeprefix("moblin://?")))["streams"]
    url = urlsplit(streams[0]["url"])
    fields = parse_qs(url.query)
    latency = str(streams[0]["srt"]["latency"])
    return url.netloc, fields["streamid"][0], fields["passphrase"][0], latency


def larix(link: str) -> tuple[str, str, str, str]:
    pairs = parse_qsl(link.removeprefix("larix://set/v1?"))
    fields = {name.removeprefix("conn[][").removesuffix("]"): value for name, value in pairs}
    if fields["srtmode"] != "c":
        sys.exit("the app would not call")
    place = urlsplit(fields["url"]).netloc
    return place, fields["srtstreamid"], fields["srtpass"], fields["srtlatency"]


def main() -> None:
    begin = sys.argv[1] + ", "
    for line in sys.stdin:
        _, _, link = line.strip().partition(": ")
        if not line.startswith(begin) or "://" not in link:
            continue
        app = moblin if link.startswith("moblin:") else larix
        place, stream_id, passphrase, latency = app(link)
        # ffmpeg counts the latency in microseconds.
        print(f"{place}?latency={latency}000&streamid={stream_id}&passphrase={passphrase}")
        return
    sys.exit(f"no link of {sys.argv[1]}")


main()
