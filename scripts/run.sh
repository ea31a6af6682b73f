#!/usr/bin/env bash
# What `make run` does once the program is built: a service, a device that is connected to it, and one push from a
# provider (curl) to that device. Then the service runs on until Ctrl-C; with ONCE=1 it stops, and the exit code says
# whether the push was accepted.
#
#   PORT=2197           the provider API, on 127.0.0.1
#   COURIER_PORT=5223   the devices' door
#   DATA=.apus/run      keys, certificates and the store; made on the first run (ONCE=1 uses a folder of its own)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

port=${PORT:-2197}
courier_port=${COURIER_PORT:-5223}
bin=.build/release
scratch=$(mktemp -d)
data=${DATA:-.apus/run}
[ -z "${ONCE-}" ] || data=$scratch/data

children=()
stop() {
  trap - EXIT INT TERM
  # Devices go first (they were started last), so that the service has nobody left to wait for.
  for ((i = ${#children[@]} - 1; i >= 0; i--)); do
    kill "${children[i]}" 2>/dev/null && wait "${children[i]}" 2>/dev/null || true
  done
  rm -rf "$scratch"
}
trap stop EXIT
trap 'stop; exit 0' INT TERM

die() {
  printf 'run: %s\n' "$*" >&2
  exit 1
}

# wait_for WHAT CHILD COMMAND…: until the command succeeds; fails when the child is gone or 20 seconds are.
wait_for() {
  local what=$1 child=$2 tries
  shift 2
  for ((tries = 0; tries < 200; tries++)); do
    ! "$@" || return 0
    kill -0 "$child" 2>/dev/null || die "$what ended (its message is above)."
    sleep 0.1
  done
  die "$what is not ready after 20 seconds."
}

# The value of one field of what `apus init` printed: a flat object of strings.
field() { sed -nE "s/.*\"$1\" *: *\"([^\"]*)\".*/\1/p" "$data/init.json"; }

if [ ! -s "$data/init.json" ]; then
  mkdir -p "$data"
  "$bin/apus" init --data "$data" --name localhost --topic com.example.app --json >"$scratch/init.json"
  mv "$scratch/init.json" "$data/init.json"
fi
authority=$(field authority_file)
topic=$(field topic)

"$bin/apus" serve --data "$data" --http2-listen "127.0.0.1:$port" --courier-listen "127.0.0.1:$courier_port" &
children+=($!)
# Any answer will do, a refusal included: it shows that the door is open and its certificate good.
wait_for "The service" "${children[0]}" \
  curl --silent --output /dev/null --http2 --cacert "$authority" "https://localhost:$port/"

"$bin/apus-bench" fleet --data "$data" --devices 1 --connect "127.0.0.1:$courier_port" \
  --print-tokens "$scratch/tokens" &
children+=($!)
wait_for "The device" "${children[1]}" test -s "$scratch/tokens"
token=$(head -n 1 "$scratch/tokens")
provider_token=$("$bin/apus-bench" jwt --key "$(field key_file)" --key-id "$(field key_id)" --team "$(field team)")

cat <<END

A push to the device, as any APNs provider sends it:

  curl --http2 --cacert $authority -H 'authorization: bearer $provider_token' \\
    -H 'apns-topic: $topic' -H 'apns-push-type: alert' -d '{"aps":{"alert":"Hello from Apus"}}' \\
    https://localhost:$port/3/device/$token

END
status=$(curl --silent --show-error --http2 --cacert "$authority" \
  -H "authorization: bearer $provider_token" -H "apns-topic: $topic" -H 'apns-push-type: alert' \
  -d '{"aps":{"alert":"Hello from Apus"}}' --output "$scratch/answer" --write-out '%{http_code}' \
  "https://localhost:$port/3/device/$token")
printf 'The service answered %s %s\n' "$status" "$(cat "$scratch/answer")"
[ "$status" = 200 ] || die "the push was refused."
[ -z "${ONCE-}" ] || exit 0

printf 'It runs on until Ctrl-C. Its data: %s\n' "$data"
wait "${children[0]}"
