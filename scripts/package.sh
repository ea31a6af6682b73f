#!/usr/bin/env bash
# Makes the Debian packages `apus`, `apus-agent`, `apus-bench` with their debug symbols, and `libapus-device-dev`, in
# .build/package.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh package
work=.build/package
rm -rf "$work"
mkdir -p "$work/apus"
# dpkg-buildpackage writes beside and into its source folder, so it gets a copy without the sources.
cp -r debian CHANGELOG.md "$work/apus"
export APUS_SOURCE=$PWD
cd "$work/apus"
# The libraries that the Makefile installs are those of Build-Depends.
dpkg-buildpackage --build=binary --no-sign --no-check-builddeps >../build.log 2>&1 || {
  tail -n 40 ../build.log >&2
  exit 1
}
cd ..
lintian --fail-on error --profile debian ./*.changes
ls -l ./*.deb
