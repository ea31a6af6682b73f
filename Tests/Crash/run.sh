#!/bin/bash
# Kills a service repeatedly under load, and accounts for every accepted notification: `make crash`.
#
#   Tests/Crash/run.sh [--kills N] [--seed N] [--rounds one|five|both]
#
# Half of the kills use an app that retains one notification for a device, the other half one that retains five. After a
# failure the data directory is kept, with the service's output.
set -euo pipefail

programs=${PROGRAMS:-$(dirname "$0")/../../.build/release}
topic=com.example.app
kills=100
rounds=both
others=()
while [ $# -gt 0 ]; do
  case $1 in
    --kills) kills=$2; shift 2 ;;
    --kills=*) kills=${1#*=}; shift ;;
    --rounds) rounds=$2; shift 2 ;;
    *) others+=("$1"); shift ;;
  esac
done

# Arguments: the number of kills, and the number of notifications that the app retains.
round() {
  local data issued status
  data=$(mktemp --directory "${TMPDIR:-/tmp}/apus-crash-XXXXXX")
  "$programs/apus" init --data "$data" --name localhost --topic "$topic" >/dev/null
  "$programs/apus" app --data "$data" --change "$topic" --retain "$2" >/dev/null
  # The names of the issued files.
  issued=$("$programs/apus" cert --data "$data" --topic "$topic" --json)
  file() { sed -E "s/.*\"$1\":\"([^\"]*)\".*/\1/" <<<"$issued"; }

  if "$programs/apus-bench" crash --apus "$programs/apus" --data "$data" --certificate "$(file certificate_file)" \
    --key "$(file key_file)" --authority "$(file authority_file)" --topic "$topic" --kills "$1" --retention "$2" \
    ${others[@]+"${others[@]}"}; then
    rm -rf "$data"
  else
    status=$?
    echo "The data directory is kept: $data" >&2
    exit $status
  fi
}

case $rounds in
  one) round "$kills" 1 ;;
  five) round "$kills" 5 ;;
  *)
    round $(((kills + 1) / 2)) 1
    if [ "$kills" -gt 1 ]; then round $((kills / 2)) 5; fi
    ;;
esac
