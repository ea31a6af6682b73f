#!/usr/bin/env python3
"""Receives webhooks of Apus, and prints each event once.

    apus webhook add http://127.0.0.1:8099/ --name example > secret.txt
    python3 webhook_receiver.py --secret "$(head -n 1 secret.txt)" --port 8099

It needs nothing but Python 3. Behind a proxy that ends TLS it works for other machines as well. A receiver of your own
must do three things as this one does: verify the signature with the bytes of the body as they came, answer with a
status from 200 to 299 only when the events are safe, and leave out events that came before (by their ids), because a
request whose answer was lost is repeated.
"""

import argparse
import hashlib
import hmac
import http.server
import json
import time

# A recorded request must not be accepted again later.
LARGEST_AGE_SECONDS = 300


def is_genuine(header: str, body: bytes, secret: str, now: float) -> bool:
    """Whether the header `apus-webhook-signature` proves that the body comes from the service, and is recent."""
    values = [part.partition("=") for part in header.split(",")]
    times = [value for name, _, value in values if name == "t"]
    signatures = [value for name, _, value in values if name == "v1"]
    if len(times) != 1 or not times[0].isdigit() or abs(now - int(times[0])) > LARGEST_AGE_SECONDS:
        return False
    expected = hmac.new(secret.encode(), times[0].encode() + b"." + body, hashlib.sha256).hexdigest()
    # While a secret is being rotated, there is one for each. Compared in constant time.
    return any([hmac.compare_digest(expected, signature) for signature in signatures])


class Receiver(http.server.BaseHTTPRequestHandler):
    secret = ""
    last_id = 0

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        signature = self.headers.get("apus-webhook-signature", "")
        if not is_genuine(signature, body, self.secret, time.time()):
            self.answer(401)
            return
        for event in json.loads(body)["events"]:
            # A test has the id 0. A receiver that keeps what it gets stores the last id with it.
            if 0 < event["id"] <= Receiver.last_id:
                continue
            Receiver.last_id = max(Receiver.last_id, event["id"])
            print(json.dumps(event), flush=True)
        self.answer(204)

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description="Receive webhooks of Apus.")
    parser.add_argument("--secret", required=True, help="what `apus webhook add` printed")
    parser.add_argument("--port", type=int, default=8099)
    arguments = parser.parse_args()
    Receiver.secret = arguments.secret
    server = http.server.ThreadingHTTPServer(("127.0.0.1", arguments.port), Receiver)
    print(json.dumps({"event": "listening", "port": server.server_port}), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
