#!/usr/bin/env bash
# What an administrator does with the packages, in order. Runs as root inside the installed system; see run.sh.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
cd /tmp
trap 'echo "package test: line $LINENO failed" >&2' ERR

step() { printf '%s\n' "- $*"; }

die() {
  printf 'package test: %s\n' "$*" >&2
  exit 1
}

# wait_for WHAT COMMAND…: until the command succeeds, at most ten seconds.
wait_for() {
  local what=$1 tries
  shift
  for ((tries = 0; tries < 200; tries++)); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.05
  done
  cat ./*.log >&2; die "no $what in ten seconds"
}

as_apus() { setpriv --reuid=apus --regid=apus --clear-groups "$@"; }

step "the packages install; there is no Swift"
if command -v swift; then die "this system has a toolchain"; fi
dpkg -i apus_*.deb apus-bench_*.deb >install.log 2>&1 || {
  cat install.log
  exit 1
}
[ "$(apus version)" = "apus $(dpkg-query -W -f '${Version}' apus | sed 's/-.*//')" ] || die "$(apus version)"
getent passwd apus >/dev/null || die "there is no user apus"
[ -s /usr/share/man/man1/apus.1.gz ] && [ -s /usr/share/man/man1/apus-bench.1.gz ] || die "manual pages are missing"
bash -n /usr/share/bash-completion/completions/apus
for example in apus.rules.yml grafana.json; do
  [ -s "/usr/share/doc/apus/examples/$example" ] || die "there is no example $example"
done

step "apus dev accepts a push within a second"
began=$(date +%s%N)
apus dev --free-ports --json >dev.json 2>dev.log &
dev=$!
field() { sed -nE "s/.*\"$1\":\"?([^\",}]*)\"?.*/\1/p" "$2" | head -n 1; }
wait_for "development service" test -s dev.json
port=$(sed -nE 's/.*"http2":\{"production":([0-9]+).*/\1/p' dev.json)
apus send --to "localhost:$port" --authority "$(field authority_file dev.json)" \
  --key "$(field key_file dev.json)" --key-id "$(field key_id dev.json)" --team "$(field team dev.json)" \
  --topic com.example.app --token "$(printf 'ab%.0s' {1..32})" --alert Hello
took=$((($(date +%s%N) - began) / 1000000))
echo "  $took ms"
kill "$dev"
wait "$dev"

step "apus init, and the command line of the unit as its user"
as_apus apus init --data /var/lib/apus --topic com.example.app --name localhost >init.txt
serve() {
  # Not with `as_apus`: the process to stop would be a shell.
  setpriv --reuid=apus --regid=apus --clear-groups \
    $(sed -n 's/^ExecStart=//p' /lib/systemd/system/apus.service) >>serve.txt 2>>serve.log &
  service=$!
  wait_for "service" as_apus apus status --data /var/lib/apus
}
serve
if ! as_apus apus status --data /var/lib/apus >status.txt; then cat serve.log; exit 1; fi

step "a device enrols with a code and gets a push"
code=$(as_apus apus code --data /var/lib/apus --name phone | head -n 1)
apus listen --to localhost:5223 --authority /var/lib/apus/authority/service.crt --identity phone.pem --enroll "$code" \
  --topic com.example.app --token-file token >listen.txt 2>listen.log &
device=$!
wait_for "token" test -s token
as_apus apus send --data /var/lib/apus --topic com.example.app --token "$(cat token)" --alert "Tea is ready"
wait_for "push" grep -q "Tea is ready" listen.txt
kill "$device"
wait "$device" || true

step "an upgrade keeps settings and data; what waits for the device arrives after it"
echo "# kept" >>/etc/apus/apus.conf
as_apus apus send --data /var/lib/apus --topic com.example.app --token "$(cat token)" --alert "Kept while away"
kill "$service"
wait "$service"
dpkg -i apus_*.deb apus-bench_*.deb >upgrade.log 2>&1
grep -q "# kept" /etc/apus/apus.conf || die "the settings were replaced"
serve
apus listen --to localhost:5223 --authority /var/lib/apus/authority/service.crt --identity phone.pem \
  --topic com.example.app >listen.txt 2>listen.log &
device=$!
wait_for "stored push" grep -q "Kept while away" listen.txt
kill "$device" "$service"
wait "$device" "$service" || true

step "removing keeps the data, purging deletes it"
dpkg -r apus-bench apus >remove.log 2>&1
[ -d /var/lib/apus/store ] && [ -s /etc/apus/apus.conf ] || die "removing deleted settings or data"
dpkg -P apus-bench apus >purge.log 2>&1
[ ! -e /var/lib/apus ] && [ ! -e /etc/apus ] && [ ! -e /usr/bin/apus ] || die "purging left something"
step "passed"
