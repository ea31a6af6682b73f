#!/usr/bin/env bash
# Runs the tests that are built, all or those that match $1, and repeats at the end what failed: between ten thousand
# lines of tests that run side by side nobody finds it.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

log=.build/test.log
# All at once would starve each other for minutes, and have more than a thousand files open: with 1,360 of them
# Foundation's `Process` reads behind the end of a directory's listing.
swift test --skip-build --experimental-maximum-parallelization-width 32 ${1:+--filter "$1"} 2>&1 | tee "$log"
code=${PIPESTATUS[0]}
if [ "$code" -ne 0 ]; then
  echo
  echo "What failed (all of it is in $log):"
  # A test that crashes the process has no such line; then the last lines say most.
  grep -a -A 3 '^✘' "$log" | grep -a -v -E '^(◇|✔)' | tail -n 60 || tail -n 20 "$log"
fi
exit "$code"
