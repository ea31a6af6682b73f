#!/bin/sh
# Waits until a running `apus dev` gets a push with this title, and prints how the device shows it.
#
#     wait-for-push.sh TITLE [CONSOLE]
set -eu
console=${2:-http://127.0.0.1:2190/}
wanted=$(python3 -c '
import json, sys
print(json.dumps({"match": {"title": sys.argv[1]}, "timeoutMilliseconds": 30000}))' "$1")
curl --silent --show-error --fail-with-body \
  --header 'content-type: application/json' \
  --data "$wanted" \
  "${console%/}/api/v1/pushes/wait" |
  python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)["pushes"][0]["preview"], indent=1))'
