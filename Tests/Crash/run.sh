#!/bin/bash
# Kills a service again and again under load, and accounts for everything that it accepted: `make crash`.
#
#   Tests/Crash/run.sh [--kills N] [--seed N]
#
# After a failure the data directory stays, with what the service printed.
set -euo pipefail

programs=${PROGRAMS:-$(dirname "$0")/../../.build/release}
data=$(mktemp --directory "${TMPDIR:-/tmp}/apus-crash-XXXXXX")
"$programs/apus" init --data "$data" --name localhost --topic com.example.app >/dev/null
# The names of the files that were issued.
issued=$("$programs/apus" cert --data "$data" --topic com.example.app --json)
file() { sed -E "s/.*\"$1\":\"([^\"]*)\".*/\1/" <<<"$issued"; }

if "$programs/apus-bench" crash --apus "$programs/apus" --data "$data" --certificate "$(file certificate_file)" \
  --key "$(file key_file)" --authority "$(file authority_file)" "$@"; then
  rm -rf "$data"
else
  status=$?
  echo "The data directory is kept: $data" >&2
  exit $status
fi
