#!/usr/bin/env bash
# Installs the packages of .build/package in a Debian 12 without Swift, uses them as an administrator would, installs
# them again and purges them (scenario.sh). Then boots such a system, with systemd as its first process (boot.sh).
# `make package-test` makes the packages first. Needs root: it makes systems in a folder, each with its own network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

scripts/setup.sh package
packages=$PWD/.build/package
# What the packages depend on is in the base, so that they can be installed without a network.
included=$(scripts/depends.sh "$packages"/apus_*.deb),systemd-sysv,logrotate,curl
base=$PWD/.build/package-base-$(cksum <<<"$included" | cut -d ' ' -f 1).tar
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The library in C: its example compiles against what its package installs.
dpkg-deb --extract "$packages"/libapus-device-dev_*.deb "$work/device"
flags=$(PKG_CONFIG_SYSROOT_DIR=$work/device \
  PKG_CONFIG_PATH=$(dirname "$work"/device/usr/lib/*/pkgconfig/apus-device.pc) \
  pkg-config --static --cflags --libs apus-device)
# shellcheck disable=SC2086 # words
cc -Wall -Werror -o "$work/listen" "$work/device/usr/share/doc/libapus-device-dev/examples/listen.c" $flags
[ "$("$work/listen" 2>&1 | grep -c "^usage:")" = 1 ]

[ -s "$base" ] || mmdebstrap --quiet --variant=minbase --include="$included" bookworm "$base"

# new_system ROOT SCRIPT: with the packages and the script in /tmp.
new_system() {
  mkdir "$1"
  tar -xf "$base" -C "$1"
  # What the installer of a real system writes.
  printf '127.0.0.1 localhost\n::1 localhost\n' >"$1/etc/hosts"
  cp "$packages"/*.deb Tests/DataDirectories/0.1.tar.gz README.md "$2" "$1/tmp"
}

# inside ROOT COMMAND…: runs it there, with processes, mounts and a network of its own.
inside() {
  unshare --mount --pid --net --fork bash -euc '
    ip link set lo up
    mount -t proc proc "$1/proc"
    exec chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "${@:2}"
  ' inside "$@"
}

new_system "$work/used" Tests/Package/scenario.sh
inside "$work/used" bash /tmp/scenario.sh

system=$work/booted
new_system "$system" Tests/Package/boot.sh
mkdir -p "$system/etc/systemd/system/apus.service.d"
# A watchdog that does not make the test wait for a minute.
printf '[Service]\nWatchdogSec=3\n' >"$system/etc/systemd/system/apus.service.d/test.conf"
cat >"$system/etc/systemd/system/boot-test.service" <<'UNIT'
[Unit]
After=multi-user.target

[Service]
Type=oneshot
ExecStart=/bin/bash /srv/boot.sh
StandardOutput=append:/boot.txt
StandardError=append:/boot.txt
ExecStopPost=/bin/sh -c 'exec systemctl --no-block poweroff 2>/dev/null'

[Install]
WantedBy=default.target
UNIT
# /tmp is emptied at the boot.
mv "$system/tmp/boot.sh" "$system/srv"
inside "$system" bash -euc '
  dpkg -i /tmp/apus_*.deb /tmp/apus-agent_*.deb >/dev/null 2>&1
  setpriv --reuid=apus --regid=apus --clear-groups apus init --data /var/lib/apus --name localhost >/dev/null
  systemctl --quiet enable apus.socket apus.service boot-test.service'
# Without the host's systemd, which need not be running.
timeout 180 systemd-nspawn --quiet --directory="$system" --register=no --keep-unit --private-network --boot \
  >"$work/boot.log" 2>&1 </dev/null || true
cat "$system/boot.txt" || tail -n 30 "$work/boot.log"
[ "$(tail -n 1 "$system/boot.txt")" = "- passed" ]
