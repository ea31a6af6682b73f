#!/usr/bin/env bash
# Installs the packages of .build/package in a Debian 12 without Swift, uses them as an administrator would, installs
# them again and purges them. `make package-test` makes the packages first. Needs root: it makes a system in a folder,
# and runs it with a network of its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

packages=$PWD/.build/package
base=$PWD/.build/package-base.tar
work=$(mktemp -d)
root=$work/root
trap 'rm -rf "$work"' EXIT

if [ ! -s "$base" ]; then
  # What the packages depend on is in the base, so that they can be installed without a network.
  depends=$(for package in "$packages"/apus_*.deb; do dpkg-deb --field "$package" Depends; done |
    sed 's/ | [^,]*//g; s/([^)]*)//g; s/ //g')
  mmdebstrap --quiet --variant=minbase --include="$depends,curl" bookworm "$base"
fi
mkdir "$root"
tar -xf "$base" -C "$root"
# What the installer of a real system writes.
printf "127.0.0.1 localhost\n::1 localhost\n" >"$root/etc/hosts"
cp "$packages"/*.deb Tests/Package/scenario.sh "$root/tmp"

# A network, processes and mounts of its own: nothing outside is reached or changed.
unshare --mount --pid --net --fork bash -euc '
  ip link set lo up
  mount -t proc proc "$1/proc"
  exec chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin bash /tmp/scenario.sh
' package "$root"
