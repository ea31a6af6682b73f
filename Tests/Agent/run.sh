#!/usr/bin/env bash
# What the agent goes through on a bad day (shows.py), with the programs that `make agent-shows` builds first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

scripts/setup.sh agent
export APUS_PROGRAMS=$PWD/.build/release
exec /usr/bin/python3 Tests/Agent/shows.py "$@"
