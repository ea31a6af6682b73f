#!/usr/bin/env python3
"""Runs HAProxy in front of listeners on 127.0.0.1, until it is stopped.

  haproxy.py SEND PORT...      SEND is send-proxy or send-proxy-v2

It connects to them from 127.0.0.3. Prints where it listens: one port for each PORT, in order.
"""
import json
import os
import socket
import sys

send, *ports = sys.argv[1:]
lines = ["global", "  maxconn 64", "defaults", "  mode tcp"]
lines += [f"  timeout {what} 60s" for what in ["connect", "client", "server"]]
fronts = []
for port in ports:
    listening = socket.create_server(("127.0.0.1", 0))
    listening.set_inheritable(True)
    fronts.append(listening)
    lines += [f"listen for-{port}", f"  bind fd@{listening.fileno()}"]
    lines += [f"  server apus 127.0.0.1:{port} source 127.0.0.3 {send} check inter 200ms"]
settings = os.memfd_create("haproxy.cfg", 0)
os.write(settings, ("\n".join(lines) + "\n").encode())
os.lseek(settings, 0, os.SEEK_SET)
print(json.dumps({"event": "ready", "ports": [front.getsockname()[1] for front in fronts]}), flush=True)
os.execv("/usr/sbin/haproxy", ["haproxy", "-db", "-q", "-f", f"/proc/self/fd/{settings}"])
