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
dpkg -i apus_*.deb apus-agent_*.deb apus-bench_*.deb >install.log 2>&1 || {
  cat install.log
  exit 1
}
[ "$(apus version)" = "apus $(dpkg-query -W -f '${Version}' apus | sed 's/-.*//')" ] || die "$(apus version)"
getent passwd apus >/dev/null || die "there is no user apus"
[ -s /usr/share/man/man1/apus.1.gz ] && [ -s /usr/share/man/man1/apus-bench.1.gz ] || die "manual pages are missing"
[ -s /usr/share/man/man1/apus-agent.1.gz ] && getent passwd apus-agent >/dev/null || die "the agent is incomplete"
if ldd /usr/bin/apus-agent | grep -E "rocksdb|curl|microhttpd"; then die "the agent links what only a service needs"; fi
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

step "the examples of the README work for an ordinary user"
mkdir -m 777 reader
{
  printf '%s\n' 'set -e' 'trap '\''kill $(jobs -p) 2>/dev/null; wait'\'' EXIT'
  awk '/^<!-- run: README -->$/ { getline; inside = 1; next }
    inside && /^```$/ { inside = 0; print "next_example"; next }
    inside' README.md
} >reader/examples.sh
# A reader takes some seconds from one example to the next, in which what was started gets ready.
cat >reader/run.sh <<'RUN'
next_example() {
  until apus status >/dev/null 2>&1; do sleep 0.1; done
  sleep 2
  if jobs | grep -q "apus listen"; then until [ -s token ]; do sleep 0.1; done; fi
}
. ./examples.sh
RUN
(
  cd reader
  setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME="$PWD" timeout 60 bash run.sh >out.txt 2>&1
) || die "$(cat reader/out.txt)"
grep -q "Tea is ready" reader/out.txt || die "$(cat reader/out.txt)"
grep -q "Hello from curl" reader/out.txt || die "$(cat reader/out.txt)"

step "apus init, and the command line of the unit as its user"
as_apus apus init --data /var/lib/apus --topic com.example.app --name localhost >init.txt
# serve [DIRECTORY]
serve() {
  local directory=${1:-/var/lib/apus}
  # Not with `as_apus`: the process to stop would be a shell.
  setpriv --reuid=apus --regid=apus --clear-groups \
    $(sed -n 's/^ExecStart=//p' /lib/systemd/system/apus.service) --data "$directory" >>serve.txt 2>>serve.log &
  service=$!
  wait_for "service" as_apus apus status --data "$directory"
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

step "the audit log is rotated while the service writes to it, and no line is lost"
serve
for number in {1..40}; do
  as_apus apus team --data /var/lib/apus --add "Team $number" >/dev/null
  if [ $((number % 8)) = 0 ]; then sleep 1; logrotate -f /etc/logrotate.d/apus; fi
done &
writer=$!
# The service writes a line about each refused request, up to 100 of them.
attempts=0
key=$(echo /var/lib/apus/keys/*.p8)
while kill -0 "$writer" 2>/dev/null && [ "$attempts" -lt 100 ]; do
  if as_apus apus send --to localhost:2197 --authority /var/lib/apus/authority/service.crt --key "$key" \
    --key-id UNKNOWN001 --team UNKNOWN001 --topic com.example.app --token "$(cat token)" --alert Refused \
    >refused.txt 2>&1; then die "a push of an unknown team was accepted"; fi
  grep -q InvalidProviderToken refused.txt || die "$(cat refused.txt)"
  attempts=$((attempts + 1))
done
wait "$writer"
kill "$service"
wait "$service"
ls /var/lib/apus/audit.jsonl-*.gz >/dev/null || die "nothing was compressed: $(ls /var/lib/apus)"
added=$(zcat -f /var/lib/apus/audit.jsonl* | grep -c '"team.added"')
[ "$added" = 40 ] || die "$added of 40 lines"
refused=$(zcat -f /var/lib/apus/audit.jsonl* | grep -c '\.refused"')
[ "$refused" = "$attempts" ] || die "$refused lines about $attempts refused requests"
if zcat -f /var/lib/apus/audit.jsonl* | grep -vE '^\{.*\}$'; then die "a broken line"; fi

step "a backup of the running service is restored into an empty directory"
serve
install -d -o apus -g apus -m 700 /var/backups/apus
as_apus apus backup --data /var/lib/apus /var/backups/apus/one
as_apus apus check --backup /var/backups/apus/one
kill "$service"
wait "$service"
install -d -o apus -g apus -m 700 /var/lib/restored
as_apus apus restore --data /var/lib/restored /var/backups/apus/one >restore.txt
grep -q "1 device token ended" restore.txt || die "$(cat restore.txt)"
as_apus apus check --data /var/lib/restored | sed 's/^/  /'
serve /var/lib/restored
rm token
apus listen --to localhost:5223 --authority /var/lib/restored/authority/service.crt --identity phone.pem \
  --topic com.example.app --token-file token >listen.txt 2>listen.log &
device=$!
wait_for "token" test -s token
as_apus apus send --data /var/lib/restored --topic com.example.app --token "$(cat token)" --alert "After the restore"
wait_for "push" grep -q "After the restore" listen.txt
kill "$device" "$service"
wait "$device" "$service" || true
rm -r /var/lib/restored

step "a directory of version 0.1 is served: what was stored arrives"
install -d -o apus -g apus -m 700 /var/lib/old
tar -xzf 0.1.tar.gz -C /var/lib/old --strip-components=1 --no-same-owner
chown -R apus:apus /var/lib/old
serve /var/lib/old
grep -q "data directory migrated" serve.log || die "there was no migration"
certificate=/var/lib/old/$(field certificate_file /var/lib/old/phone.json | sed 's|^d/||')
apus listen --to localhost:5223 --authority /var/lib/old/authority/service.crt --certificate "$certificate" \
  --key "${certificate%.crt}.key" --topic com.example.app >listen.txt 2>listen.log &
device=$!
wait_for "stored pushes" grep -q "stored 2" listen.txt
grep -q "stored 1" listen.txt || die "$(cat listen.txt)"
as_apus apus send --data /var/lib/old --topic com.example.app --key-id "$(field key_id /var/lib/old/init.json)" \
  --token "$(cat /var/lib/old/token)" --alert "With its old token"
wait_for "push" grep -q "With its old token" listen.txt
kill "$device" "$service"
wait "$device" "$service" || true
rm -r /var/lib/old /var/backups/apus

step "removing keeps the data, purging deletes it"
dpkg -r apus-agent apus-bench apus >remove.log 2>&1
[ -d /var/lib/apus/store ] && [ -s /etc/apus/apus.conf ] || die "removing deleted settings or data"
dpkg -P apus-agent apus-bench apus >purge.log 2>&1
[ ! -e /var/lib/apus ] && [ ! -e /etc/apus ] && [ ! -e /usr/bin/apus ] || die "purging left something"
step "passed"
