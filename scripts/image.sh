#!/usr/bin/env bash
# Makes an OCI image of Apus, without a container engine: .build/image/apus.tar. It has one layer, with a minimal Debian
# 12 and the package that `make package` made. `podman load` and `docker load` read it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh image
work=.build/image
packages=(.build/package/apus_*.deb)
[ -f "${packages[0]}" ] || {
  echo "image: there is no .build/package/apus_*.deb: run 'make package' first" >&2
  exit 1
}
version=$(dpkg-deb --field "${packages[0]}" Version)
version=${version%-*}
rm -rf "$work/layout" "$work/root"
mkdir -p "$work"

# The package's own dependencies, without systemd. They rarely change, so the base is kept.
depends=$(scripts/depends.sh "${packages[0]}" | sed 's/systemd,//')
base=$work/base-$(sha256sum <<<"$depends" | head -c 12).tar
if [ ! -f "$base" ]; then
  rm -rf "$work"/base-*.tar
  mmdebstrap --quiet --variant=essential --include="$depends,libpq5,ca-certificates,tzdata" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/info/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    bookworm "$work/unfinished.tar"
  mv "$work/unfinished.tar" "$base"
fi

root=$work/root
mkdir "$root"
# Device nodes cannot be made without privileges, and engines bring their own.
tar -xf "$base" -C "$root" --exclude='./dev/*'
dpkg-deb --fsys-tarfile "${packages[0]}" |
  tar -x -C "$root" --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./lib' \
    --exclude='./usr/lib/sysusers.d/*'
echo 'apus:x:10001:10001:Apus:/data:/usr/sbin/nologin' >>"$root/etc/passwd"
echo 'apus:x:10001:' >>"$root/etc/group"
# Engines mount their own.
touch "$root/etc/hosts" "$root/etc/resolv.conf"
install -d -m 700 -o 10001 -g 10001 "$root/data"

image=$work/layout:$version
umoci init --layout "$work/layout"
umoci new --image "$image"
tar -C "$root" --sort=name --mtime="@$(stat -c %Y "${packages[0]}")" --numeric-owner -cf "$work/layer.tar" .
umoci raw add-layer --image "$image" "$work/layer.tar"
rm -rf "$work/layer.tar" "$root"
ports=(2190 2191 2195 2196 2197 2198 2295 2296 5223 5224)
umoci config --image "$image" --no-history --clear=config.env \
  --os linux --architecture "$(dpkg --print-architecture)" --config.user 10001:10001 --config.workingdir /data \
  --config.env PATH=/usr/bin:/bin:/usr/sbin:/sbin --config.env APUS_DATA=/data --config.volume /data \
  --config.entrypoint apus --config.cmd serve "${ports[@]/#/--config.exposedports=}" \
  --config.label org.opencontainers.image.title=Apus \
  --config.label org.opencontainers.image.description="A push notification service" \
  --config.label "org.opencontainers.image.version=$version" \
  --config.label org.opencontainers.image.licenses=Apache-2.0
umoci gc --layout "$work/layout"
scripts/image_finish.py "$work/layout" "apus:$version"
tar -C "$work/layout" -cf "$work/apus.tar" .
bytes=$(find "$work/layout/blobs" -type f -printf '%s\n' | sort -n | tail -n 1)
echo "$work/apus.tar: apus:$version, one layer of $((bytes / 1000000)) MB"
