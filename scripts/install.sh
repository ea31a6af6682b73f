#!/usr/bin/env bash
# Installs the optimised programs with manual pages, completions, systemd units, and alert rules and a dashboard as
# examples. `make install` builds the programs first.
#
#   PREFIX=/usr/local    for programs, pages and units
#   SYSCONFDIR=/etc      for apus/apus.conf, which is kept if it exists
#   DESTDIR=             put before every path, to make a package
#   SYMBOLS=separate     debug symbols go to PREFIX/lib/debug; `keep` leaves them in the programs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

prefix=${PREFIX:-/usr/local}
sysconfdir=${SYSCONFDIR:-/etc}
root=${DESTDIR:-}
symbols=${SYMBOLS:-separate}
bin=.build/release

# Debian keeps the units of packages in /lib, zsh looks for completions in two places.
case $prefix in
/usr) units=/lib/systemd/system zsh=/usr/share/zsh/vendor-completions ;;
*) units=$prefix/lib/systemd/system zsh=$prefix/share/zsh/site-functions ;;
esac

# put MODE FILE PATH: installs one file.
put() { install -D -m "$1" "$2" "$root$3"; }

for program in apus apus-agent apus-bench; do
  [ -x "$bin/$program" ] || {
    echo "install: there is no $bin/$program: run 'make release' first." >&2
    exit 1
  }
  put 755 "$bin/$program" "$prefix/bin/$program"
  [ "$symbols" = separate ] || continue
  debug=$prefix/lib/debug$prefix/bin/$program.debug
  mkdir -p "$root$(dirname "$debug")"
  objcopy --only-keep-debug "$bin/$program" "$root$debug"
  chmod 644 "$root$debug"
  strip --strip-unneeded "$root$prefix/bin/$program"
  objcopy --add-gnu-debuglink="$root$debug" "$root$prefix/bin/$program"
done

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
for program in apus apus-agent apus-bench; do
  "$bin/$program" man >"$made/$program.1"
  put 644 "$made/$program.1" "$prefix/share/man/man1/$program.1"
done
for shell in bash zsh fish; do "$bin/apus" completions "$shell" >"$made/$shell"; done
put 644 "$made/bash" "$prefix/share/bash-completion/completions/apus"
put 644 "$made/zsh" "$zsh/_apus"
put 644 "$made/fish" "$prefix/share/fish/vendor_completions.d/apus.fish"

for unit in apus.service apus.socket apus@.service apus-agent.service user/apus-agent.service; do
  sed "s#/usr/bin/apus#$prefix/bin/apus#; s#/etc/apus#$sysconfdir/apus#g" "Packaging/systemd/$unit" >"$made/unit"
  case $unit in
  user/*) put 644 "$made/unit" "$prefix/lib/systemd/$unit" ;;
  *) put 644 "$made/unit" "$units/$unit" ;;
  esac
done
put 755 Packaging/container/health "$prefix/lib/apus/health"
put 644 Packaging/sysusers.conf "$prefix/lib/sysusers.d/apus.conf"
put 644 Packaging/apus-agent-sysusers.conf "$prefix/lib/sysusers.d/apus-agent.conf"
put 644 Examples/agent.conf "$prefix/share/doc/apus-agent/examples/agent.conf"
for example in Packaging/prometheus/apus.rules.yml Documentation/grafana.json; do
  put 644 "$example" "$prefix/share/doc/apus/examples/${example##*/}"
done
put 644 Packaging/logrotate.conf "$sysconfdir/logrotate.d/apus"
[ -e "$root$sysconfdir/apus/apus.conf" ] || put 644 Packaging/apus.conf "$sysconfdir/apus/apus.conf"
