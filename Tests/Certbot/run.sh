#!/usr/bin/env bash
# Has certbot get a certificate from an ACME server (pebble), serves it, and renews it while the service runs. Takes ten
# seconds, on this machine alone.
#
#   Tests/Certbot/run.sh [PROGRAM]    .build/release/apus, which `make certbot-test` builds first
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

program=$(realpath "${1:-.build/release/apus}")
[ -x "$program" ] || {
  echo "certbot test: there is no $program: run 'make release' first." >&2
  exit 1
}
scripts/setup.sh certbot
scratch=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$scratch"' EXIT
name=push.example.test

fail() {
  echo "certbot test: $*" >&2
  tail -n 20 "$scratch"/*.log >&2
  exit 1
}

# Runs the rest of the line until it succeeds, for at most 20 seconds.
await() {
  for _ in $(seq 200); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  fail "not in 20 seconds: $*"
}

free_ports() {
  python3 - "$1" <<'PY'
import socket, sys
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(each.getsockname()[1] for each in sockets))
PY
}

# The ACME server. All names lead to this machine.
read -r acme management http dns control <<<"$(free_ports 5)"
openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj "/CN=localhost" -addext "subjectAltName=DNS:localhost" \
  -keyout "$scratch/acme.key" -out "$scratch/acme.crt" 2>/dev/null
cat >"$scratch/pebble.json" <<JSON
{"pebble": {"listenAddress": "127.0.0.1:$acme", "managementListenAddress": "127.0.0.1:$management",
  "certificate": "$scratch/acme.crt", "privateKey": "$scratch/acme.key", "httpPort": $http, "tlsPort": 1}}
JSON
pebble-challtestsrv -defaultIPv4 127.0.0.1 -defaultIPv6 "" -dns01 "127.0.0.1:$dns" -http01 "" -https01 "" \
  -tlsalpn01 "" -management "127.0.0.1:$control" >"$scratch/names.log" 2>&1 &
PEBBLE_VA_NOSLEEP=1 PEBBLE_WFE_NONCEREJECT=0 pebble -strict -config "$scratch/pebble.json" \
  -dnsserver "127.0.0.1:$dns" >"$scratch/pebble.log" 2>&1 &
await curl --silent --fail --cacert "$scratch/acme.crt" "https://localhost:$management/roots/0" \
  --output "$scratch/root.pem"

# Its own folders: neither the machine's certificates nor root are needed.
run_certbot() {
  REQUESTS_CA_BUNDLE=$scratch/acme.crt certbot "$@" --non-interactive --config-dir "$scratch/certbot" \
    --work-dir "$scratch/work" --logs-dir "$scratch/logs" >>"$scratch/certbot.log" 2>&1 || fail "certbot $1"
}
run_certbot certonly --standalone --http-01-port "$http" --server "https://localhost:$acme/dir" --domain "$name" \
  --agree-tos --register-unsafely-without-email
live=$scratch/certbot/live/$name
# As for a service that runs as another user; renewals keep it.
chmod 640 "$(realpath "$live/privkey.pem")"

# The service, with that certificate for providers.
data=$scratch/data
"$program" init --data "$data" >/dev/null
options=()
for listener in http2-development courier-development gateway gateway-development feedback feedback-development; do
  options+=("--$listener-listen" off)
done
"$program" serve --data "$data" --json --http2-listen 127.0.0.1:0 --courier-listen 127.0.0.1:0 "${options[@]}" \
  --server-certificate "http2=$live/fullchain.pem:$live/privkey.pem" \
  >"$scratch/ready.json" 2>"$scratch/service.log" &
service=$!
await grep ready "$scratch/ready.json"
port=$(grep -oP '"http2":\["127.0.0.1:\K[0-9]+' "$scratch/ready.json")
courier=$(grep -oP '"courier":\["127.0.0.1:\K[0-9]+' "$scratch/ready.json")
issued=$("$program" device add --data "$data" --json)
"$program" listen --data "$data" --to "localhost:$courier" --token-file "$scratch/token" \
  --certificate "$(grep -oP '"certificate_file":"\K[^"]+' <<<"$issued")" \
  --key "$(grep -oP '"key_file":"\K[^"]+' <<<"$issued")" >"$scratch/device.log" 2>&1 &
await test -s "$scratch/token"

# A provider that trusts only the public authority.
push() {
  local status
  status=$(curl --silent --show-error --http2 --max-time 20 --cacert "$scratch/root.pem" \
    --resolve "$name:$port:127.0.0.1" --output "$scratch/answer" --write-out '%{http_code}' \
    --header "authorization: bearer $("$program" token make --data "$data")" --header "apns-topic: com.example.app" \
    --data "{\"aps\":{\"alert\":\"$1\"}}" "https://$name:$port/3/device/$(cat "$scratch/token")") || true
  [ "$status" = 200 ] || fail "the push got $status: $(cat "$scratch/answer")"
  await grep "$1" "$scratch/device.log"
}
serial_of() { openssl x509 -noout -serial; }
served() {
  openssl s_client -connect "127.0.0.1:$port" -servername "$name" -alpn h2 </dev/null 2>/dev/null | serial_of
}
serves_file() { [ "$(served)" = "$(serial_of <"$live/fullchain.pem")" ]; }

push "first certificate"
serves_file || fail "the service does not present $live/fullchain.pem"
before=$(served)

run_certbot renew --force-renewal --no-random-sleep-on-renew
await serves_file
[ "$(served)" != "$before" ] || fail "certbot did not renew"
push "second certificate"
[ "$(stat -L -c %a "$live/privkey.pem")" = 640 ] || fail "the group lost its right to read the key"
kill -0 "$service" || fail "the service has ended"
[ "$(grep -c 'server certificate replaced' "$scratch/service.log")" = 1 ] || fail "not replaced once"
! grep -q 'not replaced' "$scratch/service.log" || fail "the renewal was reported as a failure"

# It knows the certificate's name by the running service, and would trust the system's authorities.
"$program" doctor --data "$data" --server-certificate "http2=$live/fullchain.pem:$live/privkey.pem" \
  >"$scratch/doctor.log" 2>&1 || true
grep -q "http2 presents a certificate for $name" "$scratch/doctor.log" || fail "the doctor does not show it"
grep -q "$name has no address" "$scratch/doctor.log" || fail "the doctor does not look for $name"
echo "certbot test: issued, served, renewed and served again without a restart"
