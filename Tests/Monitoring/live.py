#!/usr/bin/env python3
"""Evaluates the dashboard and the alert rules in a Prometheus that scrapes a service with some traffic.

    Tests/Monitoring/live.py PROGRAM

Each expression of Documentation/grafana.json must give data, with the labels that its legend shows. Each metric that
the rules name must be exported, and each of their selectors must select something, except those in `WITHOUT_DATA`. No
alert may fire or be about to. Documentation/operations.md must list the alerts.
"""

import http.server
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "Benchmarks"))
from harness import ROOT, TOPIC, Process, check, free_port, output_of, say

RULES = ROOT / "Packaging/prometheus/apus.rules.yml"
DASHBOARD = ROOT / "Documentation/grafana.json"
PAGE = ROOT / "Documentation/operations.md"
# Where the states of notifications are spelled.
STATES = ROOT / "Sources/ApusModel/DeliveryState.swift"
# Until an expression has data: rates need two scrapes.
PATIENCE_SECONDS = 30

# Selectors of the rules that select nothing here, as Prometheus prints them, with the reason. The service exports these
# metrics without a sample until there is something to count.
WITHOUT_DATA = {
    'apus_notifications_total{state="Discarded - Store Failed"}': "the disk works",
    'apus_notifications_total{state="Discarded - Never Acknowledged"}': "the device acknowledges",
    'apus_requests_refused_total{reason!="Shutdown",status=~"5.."}': "the service has no fault",
    "apus_pushes_to_dead_tokens_total": "no token has been dead for a day",
    "apus_relay_doubted": "nothing was kept for an upstream",
    "apus_relay_held": "nothing was kept for an upstream",
    'apus_certificate_expiry_seconds{kind="upstream"}': "no app has an upstream",
}

# What Grafana puts in place of its variables; the window has room for several scrapes.
VARIABLES = {"$job": "apus", "$__rate_interval": "10s"}

# The words of an expression. Labels in parentheses and ranges are skipped.
WORD = re.compile(r"""
    \b (?:by|without|on|ignoring|group_left|group_right) \s* \( [^)]* \)
  | \[ [^]]* \]
  | \b [0-9] \w*
  | (?P<name> [a-zA-Z_:] [\w:]* )
    (?P<labels> \{ (?: "[^"]*" | [^"}] )* \} )?
    (?P<function> (?= \s* \( | \s+ (?:by|without)\b ) )?
""", re.VERBOSE)
OPERATORS = {"and", "or", "unless", "offset", "bool"}


def selectors(expression):
    """The metrics that an expression names, each with its label matchers."""
    found = set()
    for word in WORD.finditer(expression):
        # `unless sum by` is an operator and a function.
        if word["name"] and word["function"] is None and word["name"] not in OPERATORS:
            found.add((word["name"], word["labels"] or ""))
    return found


class Receiver(http.server.BaseHTTPRequestHandler):
    """Takes the events of a webhook."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Service:
    """A service with a device that is connected and one that is not, a few providers, and a webhook."""

    def __init__(self, program, scratch):
        self.program, self.scratch, self.data = program, scratch, scratch / "data"
        self.run("init", "--topic", TOPIC, "--name", "127.0.0.1")
        self.scrape_token = json.loads(self.run("admin", "add", "prometheus", "--json"))["token"]
        everything = ["http2", "courier", "gateway", "feedback"]
        listeners = [f"--{name}{suffix}-listen" for name in everything for suffix in ["", "-development"]]
        self.process = Process(
            [program, "serve", "--data", self.data, "--json", "--admin-listen", "127.0.0.1:0",
             *(word for option in listeners for word in [option, "127.0.0.1:0"])],
            os.sched_getaffinity(0), scratch / "service.log")
        self.process.wait_until(lambda: self.ready() is not None, "ready", 20)
        ready = self.ready()
        self.providers, self.devices = ready["http2"][0], ready["courier"][0]
        self.admin = next(a for a in ready["admin"] if a.startswith("https://")).removeprefix("https://")
        self.token, _ = self.listen("connected")
        self.offline_token, device = self.listen("offline")
        device.stop()
        issued = json.loads(self.run("cert", "--topic", TOPIC, "--json"))
        receiver = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        self.run("webhook", "add", f"http://127.0.0.1:{receiver.server_port}/")
        self.certificate = ["--certificate", issued["certificate_file"], "--certificate-key", issued["key_file"]]

    def run(self, *arguments):
        return output_of(self.program, *arguments, "--data", self.data)

    def ready(self):
        lines = self.process.log.read_text().splitlines()
        return next((json.loads(line) for line in lines if line.startswith('{"event":"ready"')), None)

    def listen(self, name):
        """The device token of a new device, and the device."""
        issued = json.loads(self.run("device", "add", "--name", name, "--json"))
        file = self.scratch / f"{name}.token"
        device = Process(
            [self.program, "listen", "--data", self.data, "--to", self.devices, "--topic", TOPIC, "--token-file", file,
             "--certificate", issued["certificate_file"], "--key", issued["key_file"]],
            os.sched_getaffinity(0), self.scratch / f"{name}.log")
        device.wait_until(lambda: file.exists() and file.read_text(), "a device token", 20)
        return file.read_text().strip(), device

    def push(self, token, *credential, status=0):
        sent = subprocess.run(
            [self.program, "send", "--data", self.data, "--to", self.providers, "--topic", TOPIC, "--token", token,
             "--alert", "Hello", *credential], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        check(sent.returncode == status, f"apus send ended with {sent.returncode}: {sent.stdout}{sent.stderr}")

    def traffic(self):
        """Pushes that are delivered, stored in place of the one before, and rejected."""
        self.push(self.token, *self.certificate)
        self.push(self.offline_token)
        self.push("ab" * 32, status=1)


class Prometheus:
    """Scrapes the service as Documentation/operations.md describes, only more often."""

    def __init__(self, service, scratch):
        token = scratch / "scrape.token"
        token.write_text(service.scrape_token)
        configuration = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [{
                "job_name": "apus",
                "scheme": "https",
                "authorization": {"credentials_file": str(token)},
                "tls_config": {"ca_file": str(service.data / "authority/service.crt")},
                "static_configs": [{"targets": [service.admin]}],
            }],
        }
        # JSON is YAML.
        file = scratch / "prometheus.yml"
        file.write_text(json.dumps(configuration))
        self.url = f"http://127.0.0.1:{free_port()}"
        self.process = Process(
            ["prometheus", f"--config.file={file}", f"--storage.tsdb.path={scratch / 'prometheus'}",
             f"--web.listen-address={self.url.removeprefix('http://')}", "--log.level=warn"],
            os.sched_getaffinity(0), scratch / "prometheus.log")
        self.process.wait_until(self.is_ready, "ready", 20)

    def is_ready(self):
        try:
            return urllib.request.urlopen(f"{self.url}/-/ready", timeout=5).status == 200
        except OSError:
            return False

    def ask(self, path, **parameters):
        """The data of an answer; for an expression that it rejects, an error instead."""
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            check(False, f"{parameters}: {json.load(error).get('error')}")

    def series(self, expression):
        """The labels of each series of the result that has a number."""
        data = self.ask("query", query=expression)
        check(data["resultType"] == "vector", f"{expression}: not a vector")
        return [row["metric"] for row in data["result"] if not math.isnan(float(row["value"][1]))]

    def exported(self):
        """The metrics of the service, also those without a sample yet."""
        names = set()
        for family in self.ask("targets/metadata", match_target='{job="apus"}'):
            name = family["metric"]
            ends = ["_bucket", "_sum", "_count"] if family["type"] == "histogram" else [""]
            names |= {name + end for end in ends}
        return names

    def rules(self):
        return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]


def panels():
    """The title, expression and legend of each query of the dashboard."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            check("$" not in expression, f"{panel['title']}: a variable that this test does not know: {expression}")
            yield panel["title"], expression, target["legendFormat"]


def missing_on_dashboard(prometheus):
    """Why queries of the dashboard show nothing, or not what their legend names."""
    for title, expression, legend in panels():
        rows = prometheus.series(expression)
        if not rows:
            yield f"dashboard, {title}: no data: {expression}"
        for label in re.findall(r"{{(\w+)}}", legend):
            if not all(label in row for row in rows):
                yield f"dashboard, {title}: the legend names {label}, which the result does not have: {expression}"


def missing_in_rules(prometheus):
    """Why rules could not fire: selectors without data, unless that is as it should be."""
    for rule in prometheus.rules():
        for name, labels in selectors(rule["query"]):
            if name + labels not in WITHOUT_DATA and not prometheus.series(f"count({name}{labels})"):
                yield f"rule {rule['name']}: selects nothing: {name}{labels}"


def check_names(prometheus):
    exported = prometheus.exported() | {"up"}
    states = STATES.read_text()
    expressions = [(title, expression) for title, expression, _ in panels()]
    expressions += [(rule["name"], rule["query"]) for rule in prometheus.rules()]
    for where, expression in expressions:
        for name, labels in selectors(expression):
            check(name in exported or name + labels in WITHOUT_DATA, f"{where}: the service does not export {name}")
            states_named = re.findall(r'state="([^"]*)"', labels) if name == "apus_notifications_total" else []
            for state in states_named:
                check(f'"{state}"' in states, f"{where}: there is no state {state}")
    named = {name + labels for _, expression in expressions for name, labels in selectors(expression)}
    for selector, reason in WITHOUT_DATA.items():
        check(selector in named, f"no rule has the selector {selector}: remove it from WITHOUT_DATA")
        check(not prometheus.series(f"count({selector})"), f"{selector} has data, although {reason}: remove it")


def check_page(prometheus):
    """The documentation lists the alerts, each with its severity."""
    listed = re.findall(r"^\| `(Apus\w+)` \| (\w+) \|", PAGE.read_text(), re.MULTILINE)
    rules = [(rule["name"], rule["labels"]["severity"]) for rule in prometheus.rules()]
    for wrong in sorted({*listed} ^ {*rules}):
        check(False, f"{wrong} is either not in {PAGE.name} or not in {RULES.name}")


def check_alerts(prometheus):
    rules = prometheus.rules()
    for rule in rules:
        check(rule["health"] == "ok", f"rule {rule['name']}: {rule['health']} {rule.get('lastError', '')}")
        check(not prometheus.series(rule["query"]), f"rule {rule['name']} is true: {rule['query']}")
    alerts = [alert["labels"]["alertname"] for alert in prometheus.ask("alerts")["alerts"]]
    check(not alerts, f"alerts in normal operation: {alerts}")
    return len(rules)


def main():
    check(len(sys.argv) == 2, "usage: live.py PROGRAM")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="apus-monitoring-") as scratch:
        try:
            service = Service(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(scratch))
            prometheus = Prometheus(service, pathlib.Path(scratch))
            deadline = time.monotonic() + PATIENCE_SECONDS
            while True:
                service.traffic()
                missing = [*missing_on_dashboard(prometheus), *missing_in_rules(prometheus)]
                if not missing or time.monotonic() > deadline:
                    break
                time.sleep(1)
            check(not missing, "\n".join(missing))
            check_names(prometheus)
            check_page(prometheus)
            rules = check_alerts(prometheus)
            say(f"{len(list(panels()))} queries of the dashboard have data; {rules} rules are quiet.")
        finally:
            for process in list(Process.everyone):
                process.stop()


main()
