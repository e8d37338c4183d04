#!/bin/sh
# Installs the programs of `anabranch-lab testbed` and `anabranch-lab kernel` on Debian or Ubuntu, as
# root.
set -eu
if [ "$(id -u)" -ne 0 ]; then
    echo "testbed-packages: run this as root, by sudo for example" >&2
    exit 1
fi
apt-get update --quiet
DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
    bpftool clang ffmpeg iproute2 libbpf-dev mptcpize nginx-light util-linux vlc-bin \
    vlc-plugin-base vlc-plugin-video-output
