#!/usr/bin/env python3
"""Judges streams that a sender of SRTLA has sent, for srtla-libsrt.sh.

srtla-judge.py FOLDER packets SENT KBPS MAX-MISSING MAX-AGAIN CASE compares SENT with out.ts.
srtla-judge.py FOLDER pictures MAX-MISSING MAX-AGAIN counts the whole pictures of out.ts, and
compares the targets with 1 Mbit/s from 2 s after the links fell to that. All limits are percent.
"""
import json
import sys

PACKET = 188


def stats(folder):
    """Returns the sender's statistics, line by line."""
    with open(f"{folder}/stats.json", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return [line for line in lines if line.get("streams")]


def sent_again(folder):
    """Returns the share of packets that were sent again in percent."""
    stream = stats(folder)[-1]["streams"][0]
    again = sum(path["counters"]["retransmitted_packets"] for path in stream["paths"])
    return 100 * again / stream["counters"]["frames_sent"]


def packets_of(name):
    """Returns the packets of MPEG-TS of a file."""
    with open(name, "rb") as file:
        content = file.read()
    return [content[at : at + PACKET] for at in range(0, len(content), PACKET)]


def packets(folder, sent, kbps, max_missing, max_again, case):
    """Prints the missing share and the one that was sent again; returns whether both are low."""
    sent, came = packets_of(sent), packets_of(f"{folder}/out.ts")
    missing = gap = at = 0
    for packet in sent:
        if at < len(came) and came[at] == packet:
            at, missing, gap = at + 1, missing + gap, 0
        else:
            gap += 1
    again = sent_again(folder)
    missing = 100 * missing / len(sent)
    print(f"        {kbps} kbit/s, {case}: {missing:.3f} % missing, {again:.2f} % sent again"
          f" (the last {gap} of {len(sent)} packets did not come before the end)")
    return at == len(came) and missing <= float(max_missing) and again <= float(max_again)


def pictures(folder, max_missing, max_again):
    """Prints the share of pictures that are not whole, and the largest target; returns whether
    both are low."""
    with open(f"{folder}/out.ts", "rb") as file:
        content = file.read()
    counts, damaged, times = {}, set(), []
    for at in range(0, len(content) - PACKET + 1, PACKET):
        packet = content[at : at + PACKET]
        pid = (packet[1] & 0x1F) << 8 | packet[2]
        head = 4 + (1 + packet[4] if packet[3] & 0x20 else 0)
        if packet[3] & 0x10 == 0 or pid == 0x1FFF:
            continue
        is_gap = pid in counts and packet[3] & 15 != (counts[pid] + 1) & 15
        counts[pid] = packet[3] & 15
        begins = packet[1] & 0x40 and packet[head : head + 4][:3] == b"\0\0\1"
        if is_gap and times:
            damaged.add(len(times) - 1)
        if begins and packet[head + 3] & 0xF0 == 0xE0:
            stamp = packet[head + 9 : head + 14]
            times.append((stamp[0] >> 1 & 7) << 30 | stamp[1] << 22 | (stamp[2] >> 1) << 15
                         | stamp[3] << 7 | stamp[4] >> 1)
    count = 1 + round((times[-1] - times[0]) / 3600)
    missing = 100 * (count - len(times) + len(damaged)) / count
    targets = [(line["uptime_s"], line["streams"][0]["target_rate_bps"] / 1e6)
               for line in stats(folder)]
    most = max(before for time, before in targets)
    after = [target for time, target in targets if time >= 14]
    again = sent_again(folder)
    print(f"        the encoder follows: {missing:.3f} % of {count} pictures missing, {again:.2f} %"
          f" sent again, target {most:.2f} Mbit/s, after the fall {max(after):.2f}")
    return missing <= float(max_missing) and again <= float(max_again) and max(after) <= 1.2


def main():
    """Judges by the arguments."""
    folder, kind, *arguments = sys.argv[1:]
    judge = {"packets": packets, "pictures": pictures}[kind]
    sys.exit(0 if judge(folder, *arguments) else 1)


main()
