#!/usr/bin/env bash
# What systemd does with the installed service: the only service of a booted system, which turns itself off after this.
# Prints a line for each step, and "passed" as the last one. Runs as root inside that system; see run.sh.
set -euo pipefail
# Also for what fails inside of functions.
set -E
trap 'echo "package test: line $LINENO failed"; journalctl --unit=apus --unit=apus-agent --no-pager | tail -n 30' ERR
cd "$(mktemp -d)"

step() { printf '%s\n' "- $*"; }

# wait_for WHAT COMMAND…: until the command succeeds, at most 30 seconds.
wait_for() {
  local what=$1 tries
  shift
  for ((tries = 0; tries < 300; tries++)); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.1
  done
  echo "package test: no $what in 30 seconds"
  false
}

as_apus() { runuser -u apus -- env APUS_DATA=/var/lib/apus "$@"; }
main_pid() { systemctl show --property=MainPID --value apus; }

step "the service is ready on the sockets of its unit, confined"
wait_for "service" systemctl is-active apus
systemctl status apus --no-pager | grep -q "serving on 4 addresses"
grep -q "^CapEff:.*[^0]$" "/proc/$(main_pid)/status" && false
grep -q "^NoNewPrivs:.*1$" "/proc/$(main_pid)/status"
grep -q "^Seccomp:.*2$" "/proc/$(main_pid)/status"
systemd-analyze security apus --no-pager | tail -n 1

step "a reload reads the data directory; a restart loses nothing"
code=$(as_apus apus code --name phone | head -n 1)
apus listen --to localhost:5223 --authority /var/lib/apus/authority/service.crt --identity phone.pem --enroll "$code" \
  --topic com.example.app --token-file token >listen.txt 2>listen.log &
wait_for "token" test -s token
systemctl reload apus
as_apus apus send --topic com.example.app --token "$(cat token)" --alert "After the reload"
systemctl restart apus
as_apus apus send --topic com.example.app --token "$(cat token)" --alert "After the restart"
wait_for "both pushes" grep -q "After the restart" listen.txt
grep -q "After the reload" listen.txt

step "the journal has the log's priorities"
journalctl --unit=apus --priority=notice --no-pager | grep -q "notice  listening"
if journalctl --unit=apus --priority=warning --no-pager --quiet | grep notice; then false; fi

step "the agent runs confined, and a command of it with the rights of its user"
install -m 644 /var/lib/apus/authority/service.crt /etc/apus-agent/service.crt
printf 'APUS_ENROLMENT_CODE=%s\n' "$(as_apus apus code --name machine | head -n 1)" >/etc/apus-agent/enrolment
cat >/etc/apus-agent/agent.conf <<'CONF'
service = localhost:5223
authority = /etc/apus-agent/service.crt
[topic com.example.app]
run = /bin/sh -c "id -un; grep CapEff /proc/self/status; cat"
user = nobody
CONF
apus-agent check
systemctl start apus-agent
systemctl is-active apus-agent
agent_connected() { apus-agent status | grep -q "state: connected"; }
wait_for "agent" agent_connected
agent_token() { apus-agent tokens | grep -oE "[0-9a-f]{64}"; }
wait_for "token of the agent" agent_token
as_apus apus send --topic com.example.app --token "$(agent_token)" --alert "For the agent"
agent_ran() { journalctl -t apus-agent/com.example.app --no-pager | grep -q "For the agent"; }
wait_for "output of the command in the journal" agent_ran
journalctl -t apus-agent/com.example.app --no-pager | grep -q "nobody"
journalctl -t apus-agent/com.example.app --no-pager | grep -qE "CapEff:[[:space:]]*0+$"
kill -KILL "$(systemctl show --property=MainPID --value apus-agent)"
wait_for "agent after a kill" agent_connected
systemctl reload apus-agent
systemctl stop apus-agent
systemd-analyze security apus-agent --no-pager | tail -n 1

step "a service that hangs is killed and started again"
pid=$(main_pid)
kill -STOP "$pid"
restarted() { [ "$(main_pid)" != "$pid" ] && systemctl is-active apus; }
wait_for "restart" restarted
as_apus apus send --topic com.example.app --token "$(cat token)" --alert "After the watchdog"
wait_for "push" grep -q "After the watchdog" listen.txt
step "passed"
