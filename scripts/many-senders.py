#!/usr/bin/env python3
"""Measures the cost of a session at a receiver of many: `many-senders.py [COUNT] [RATE] [SECONDS]` starts `anabranch recv` and COUNT senders
on loopback, and prints the memory of an idle session and the receiver's processor time per Gbit. First:
cargo build --release -p anabranch-cli -p anabranch-net --example many_senders --bin anabranch"""
import os, re, subprocess, sys, tempfile, time

count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
rate = sys.argv[2] if len(sys.argv) > 2 else "2 Mbit/s"
seconds = int(sys.argv[3]) if len(sys.argv) > 3 else 10
root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "target", "release")
program, senders = os.path.join(root, "anabranch"), os.path.join(root, "examples", "many_senders")
folder = tempfile.mkdtemp(prefix="many-senders")
made = subprocess.run([program, "keygen", "--output", f"{folder}/key"], capture_output=True, text=True, check=True)
public = re.search(r"abpub_\S+", made.stdout).group(0)
address = "127.0.0.1:7443"
sender = subprocess.Popen([senders, f"{folder}/senders", str(count), address, public, rate, str(seconds)],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
while not os.path.exists(f"{folder}/senders") or sum(1 for _ in open(f"{folder}/senders")) < count:
    time.sleep(0.1)
log = open(f"{folder}/log", "w")
receiver = subprocess.Popen([program, "recv", "--listen", address, "--key", f"{folder}/key", "--allow-from", f"{folder}/senders",
                             "--keep-listening", f"{folder}/out-{{name}}.ts"],
                            stderr=log)


def status(field):
    return int(re.search(rf"{field}:\s+(\d+)", open(f"/proc/{receiver.pid}/status").read()).group(1))


def cpu():
    fields = open(f"/proc/{receiver.pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


try:
    time.sleep(2)
    before = status("VmRSS")
    sender.stdin.write("\n"); sender.stdin.flush()
    assert sender.stdout.readline().strip() == "connected"
    time.sleep(5)
    print(f"{count} idle sessions: {(status('VmRSS') - before) / count:.0f} kB each, {status('Threads')} threads")
    idle_from = cpu(); time.sleep(5)
    print(f"idle: {(cpu() - idle_from) / 5 * 100:.1f} % of a core")
    began, used = time.monotonic(), cpu()
    sender.stdin.write("\n"); sender.stdin.flush()
    sender.wait()
    took, used = time.monotonic() - began, cpu() - used
    time.sleep(3)
    received = sum(os.path.getsize(f"{folder}/{name}") for name in os.listdir(folder) if name.endswith(".ts"))
    print(f"{received * 8 / 1e9:.2f} Gbit in {took:.1f} s: {received * 8 / 1e6 / took:.0f} Mbit/s; "
          f"{used / (received * 8 / 1e9):.2f} CPU-seconds per Gbit, {used / took * 100:.0f} % of a core")
finally:
    receiver.terminate(); receiver.wait()
    if sender.poll() is None:
        sender.kill()
