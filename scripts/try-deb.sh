#!/usr/bin/env bash
# Installs a Debian package in a clean Debian, checks its units there, starts the receiver's command
# of its unit, sends to it, and removes the package. Needs root, debootstrap and a Debian mirror.
#
# scripts/try-deb.sh PACKAGE [ROOT]   ROOT is a Debian that exists; it is changed
set -euo pipefail

package=$1
root=${2:-}
folder=$(mktemp -d)
receiver=
is_mounted=
trap 'stop; rm -rf --one-file-system "$folder"' EXIT

stop() {
    [ -z "$receiver" ] || kill "$receiver" 2>/dev/null || true
    [ -z "$is_mounted" ] || umount "$root/proc"
}

fail() {
    echo "try-deb: $1" >&2
    cat "$folder"/*.log >&2 2>/dev/null || true
    exit 1
}

inside() {
    LC_ALL=C chroot "$root" "$@"
}

if [ -z "$root" ]; then
    root=$folder/root
    debootstrap --variant=minbase --include=systemd bookworm "$root" >"$folder/debootstrap.log" ||
        fail "no clean Debian"
fi
mount -t proc proc "$root/proc" && is_mounted=yes
(cd "$root" && find etc usr var/lib -xdev \( -path var/lib/dpkg -prune \) -o -print | sort) >"$folder/before"
cp "$package" "$root/tmp/anabranch.deb"
inside dpkg --install /tmp/anabranch.deb >"$folder/install.log" 2>&1 || fail "it does not install"
inside dpkg --verify anabranch || fail "files differ from the package"

units=(/usr/lib/systemd/system/anabranch-{send,recv,serve,proxy}@.service)
for unit in "${units[@]}"; do
    instance=${unit/@/@try}
    inside ln -s "$unit" "$instance"
    inside systemd-analyze verify "$instance" >"$folder/verify.log" 2>&1 || fail "${unit##*/} is wrong"
    [ ! -s "$folder/verify.log" ] || fail "${unit##*/} has warnings"
    inside rm "$instance"
done

# The receiver's command as its unit has it, with the credential's folder and the instance's name.
inside mkdir -p /run/credentials /var/lib/anabranch
sender_public=$(inside anabranch keygen --output /run/credentials/sender.key)
receiver_public=$(inside anabranch keygen --output /run/credentials/key)
cat >"$root/etc/anabranch/try.toml" <<TOML
[recv]
listen = "127.0.0.1:17400"
allow = ["$sender_public"]
output = ["camera.ts"]
TOML
command=$(sed -n 's/^ExecStart=//p' "$root/usr/lib/systemd/system/anabranch-recv@.service")
command=${command//%i/try}
LC_ALL=C chroot "$root" sh -c "cd /var/lib/anabranch && exec ${command//%d//run/credentials}" \
    >"$folder/recv.log" 2>&1 &
receiver=$!
for _ in $(seq 100); do
    ! grep -q "listening at" "$folder/recv.log" || break
    sleep 0.1
done
grep -q "listening at" "$folder/recv.log" || fail "the unit's command does not listen"
inside anabranch send --to 127.0.0.1:17400 --via lo --key /run/credentials/sender.key \
    --peer "$receiver_public" --duration "3 s" test: >"$folder/send.log" 2>&1 || fail "the sender failed"
kill -TERM "$receiver"
wait "$receiver" || fail "the receiver failed"
receiver=
size=$(stat -c %s "$root/var/lib/anabranch/camera.ts")
[ "$size" -gt 100000 ] || fail "$size bytes arrived"

for name in anabranch anabranch-lab; do
    inside "$name" --version || fail "$name does not start"
    inside bash -n "/usr/share/bash-completion/completions/$name" || fail "completions of $name"
done
rm -rf "$root/etc/anabranch/try.toml" "$root/var/lib/anabranch" "$root/run/credentials" "$root/tmp/anabranch.deb"
inside dpkg --purge anabranch >"$folder/purge.log" 2>&1 || fail "it cannot be removed"
(cd "$root" && find etc usr var/lib -xdev \( -path var/lib/dpkg -prune \) -o -print | sort) >"$folder/after"
diff "$folder/before" "$folder/after" || fail "these files remain"
echo "try-deb: installed, checked its units, received $size bytes by its unit's command, and left nothing"
