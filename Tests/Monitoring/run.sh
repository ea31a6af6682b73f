#!/usr/bin/env bash
# Checks and tests the alert rules with promtool. Then runs a service and a Prometheus that scrapes it, and evaluates
# every expression of the rules and of the dashboard there (live.py). Takes half a minute.
#
#   Tests/Monitoring/run.sh [PROGRAM]    .build/release/apus, which `make monitoring-test` builds first
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

program=${1:-.build/release/apus}
[ -x "$program" ] || {
  echo "monitoring test: there is no $program: run 'make release' first." >&2
  exit 1
}
scripts/setup.sh monitoring
promtool check rules Packaging/prometheus/apus.rules.yml
promtool test rules Tests/Monitoring/*.test.yml
exec Tests/Monitoring/live.py "$program"
