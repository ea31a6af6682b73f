#!/usr/bin/env bash
# What `make run` does once the program is built: a service, a device that is connected to it, and a first push through
# the HTTP/2 listener, as any APNs provider would send it. What the device shows is printed. Then the service runs
# on until Ctrl-C, with the lines to send the next push; with ONCE=1 it ends with success once the push was shown.
#
#   PORT=2197           the provider API, on localhost
#   COURIER_PORT=5223   the devices' listener
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

# wait_for WHAT CHILD COMMAND…: until the command succeeds; fails when the child is gone or 30 seconds are.
wait_for() {
  local what=$1 child=$2 tries
  shift 2
  for ((tries = 0; tries < 300; tries++)); do
    ! "$@" || return 0
    kill -0 "$child" 2>/dev/null || die "$what ended (its message is above)."
    sleep 0.1
  done
  die "$what did not come in 30 seconds."
}

# field NAME FILE: one string of a flat JSON object.
field() { sed -nE "s/.*\"$1\" *: *\"([^\"]*)\".*/\1/p" "$2"; }

mkdir -p "$data"
if [ ! -s "$data/init.json" ]; then
  "$bin/apus" init --data "$data" --topic com.example.app --json >"$scratch/init.json"
  mv "$scratch/init.json" "$data/init.json"
fi
if [ ! -s "$data/device.json" ]; then
  "$bin/apus" device add --data "$data" --name demonstration --json >"$scratch/device.json"
  mv "$scratch/device.json" "$data/device.json"
fi
authority=$(field authority_file "$data/init.json")
topic=$(field topic "$data/init.json")
key=$(field key_file "$data/init.json")
key_id=$(field key_id "$data/init.json")
team=$(field team "$data/init.json")

"$bin/apus" serve --data "$data" --json \
  --http2-listen "127.0.0.1:$port,[::1]:$port" --courier-listen "127.0.0.1:$courier_port,[::1]:$courier_port" \
  --http2-development-listen off --courier-development-listen off \
  --gateway-listen off --gateway-development-listen off \
  --feedback-listen off --feedback-development-listen off >"$scratch/serve.out" &
children+=($!)
wait_for "The service" "${children[0]}" grep -q '"ready"' "$scratch/serve.out"

"$bin/apus" listen --data "$data" --to "localhost:$courier_port" --topic "$topic" --token-file "$scratch/token" \
  --certificate "$(field certificate_file "$data/device.json")" --key "$(field key_file "$data/device.json")" \
  >"$scratch/shown" &
children+=($!)
wait_for "The device" "${children[1]}" test -s "$scratch/token"
token=$(head -n 1 "$scratch/token")

printf '\nSending a first push, as any APNs provider would.\n'
bearer=$("$bin/apus-bench" jwt --key "$key" --key-id "$key_id" --team "$team")
status=$(curl --silent --show-error --http2 --cacert "$authority" \
  --header "authorization: bearer $bearer" --header "apns-topic: $topic" --header 'apns-push-type: alert' \
  --data '{"aps":{"alert":{"title":"Apus","body":"Hello from Apus"},"sound":"default"}}' \
  --output "$scratch/answer" --write-out '%{http_code}' "https://localhost:$port/3/device/$token")
[ "$status" = 200 ] || die "the push was answered $status $(cat "$scratch/answer")"
wait_for "The push" "${children[1]}" grep -q 'Hello from Apus' "$scratch/shown"

printf 'The service answered 200, and the device showed:\n\n'
sed 's/^/  /' "$scratch/shown"
if [ -n "${ONCE-}" ]; then
  exit 0
fi

cat <<END

The service runs on until Ctrl-C. Its data: $data

The next push, with curl (the provider token in it is good for an hour):

  curl --http2 --cacert $authority \\
    --header 'authorization: bearer $bearer' \\
    --header 'apns-topic: $topic' --header 'apns-push-type: alert' \\
    --data '{"aps":{"alert":"Hello again"}}' \\
    https://localhost:$port/3/device/$token

or with apus:

  $bin/apus send --data $data --to localhost:$port --token $token --alert 'Hello again'

END
# From here on the device speaks for itself.
tail -n +1 -f --pid="${children[1]}" "$scratch/shown" | tail -n +2 &
children+=($!)
wait "${children[0]}"
