#!/usr/bin/env bash
# Runs the tests that are built, all or those that match $1. It shows suites and failures as they come, and repeats at
# the end what failed: between ten thousand lines of tests that run side by side nobody finds it.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

log=.build/test.log
shown='^(✘|↳|✔ (Suite|Test run) |error:)|Fatal error|SUMMARY: |^\*\*\* |^💣'

# Tests that began and did not end: when the process crashed, it was one of them.
unfinished() {
  awk '
    /^◇ Test case / || /^◇ Test run / { next }
    /^◇ Test .* started\.$/ { sub(/^◇ Test /, ""); sub(/ started\.$/, ""); running[$0]++ }
    /^[✔✘] Test .* (passed|failed) after / {
      sub(/^[✔✘] Test /, ""); sub(/ (with [0-9]+ test cases? )?(passed|failed) after .*/, ""); running[$0]--
    }
    END { for (name in running) if (running[name] > 0) print "  " name }
  ' "$log"
}

# All at once would starve each other for minutes, and have more than a thousand files open (a service of a test has
# some sixty): with 1,360 of them Foundation's `Process` reads behind the end of a directory's listing.
swift test --skip-build --experimental-maximum-parallelization-width 16 ${1:+--filter "$1"} 2>&1 |
  tee "$log" | grep -a --line-buffered -E "$shown"
code=${PIPESTATUS[0]}
if [ "$code" -ne 0 ]; then
  echo
  echo "The tests ended with $code. What failed (all of it is in $log):"
  grep -a -A 3 '^✘' "$log" | grep -a -v -E '^(◇|✔)' | tail -n 60
  # A crash leaves no such line; then the last words say most.
  if ! grep -a -q -E '^[✔✘] Test run ' "$log"; then
    echo "The run did not end. Under way:"
    unfinished
    echo "Its last words:"
    grep -a -v -E '^(◇|✔)' "$log" | tail -n 40
  fi
fi
exit "$code"
