#!/usr/bin/env python3
"""Runs another project's HTTP/2 server on a free port of localhost, until it is stopped.

  serve.py SERVER CERTIFICATE KEY FOLDER      SERVER is go, h2, haproxy, nghttpd, nginx or node

It answers every push with 200. FOLDER is for the server's files. Prints where it listens.
"""
import json
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import threading

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent.parent / "Benchmarks"))
from harness import free_port

server, certificate, key, folder = sys.argv[1:]
folder = pathlib.Path(folder)


def ready(port):
    print(json.dumps({"event": "ready", "port": port}), flush=True)


def run(port, *command):
    """Becomes the server, and reports it once it accepts connections."""
    if os.fork():
        os.execv(command[0], command)
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
    ready(port)
    os._exit(0)


def go():
    """Go's own server: answers without reading the body, and then asks the client to stop sending it (RST_STREAM with
    NO_ERROR)."""
    port = free_port()
    (folder / "main.go").write_text("""
      package main

      import (
        "log"
        "net/http"
        "os"
      )

      func main() {
        http.HandleFunc("/", func(answer http.ResponseWriter, request *http.Request) {
          answer.WriteHeader(200)
        })
        log.Fatal(http.ListenAndServeTLS("127.0.0.1:"+os.Args[3], os.Args[1], os.Args[2], nil))
      }
    """)
    environment = {**os.environ, "GOCACHE": str(folder / "cache"), "GO111MODULE": "off"}
    subprocess.run(["/usr/bin/go", "build", "-o", "server", "main.go"], cwd=folder, env=environment, check=True)
    run(port, str(folder / "server"), certificate, key, str(port))


def h2():
    """hyper-h2: checks everything that a client sends, and leaves windows to its user."""
    import h2.config
    import h2.connection
    import h2.events

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2"])

    def serve(stream):
        peer = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        peer.initiate_connection()
        stream.sendall(peer.data_to_send())
        while data := stream.recv(65536):
            for event in peer.receive_data(data):
                if isinstance(event, h2.events.DataReceived):
                    peer.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    peer.send_headers(event.stream_id, [(":status", "200")], end_stream=True)
            stream.sendall(peer.data_to_send())

    with socket.create_server(("127.0.0.1", 0)) as listening:
        ready(listening.getsockname()[1])
        while True:
            stream = context.wrap_socket(listening.accept()[0], server_side=True)
            threading.Thread(target=serve, args=(stream,), daemon=True).start()


def haproxy():
    """Ends TLS and HTTP/2 itself, and answers without a server behind it."""
    (folder / "both.pem").write_text(pathlib.Path(certificate).read_text() + pathlib.Path(key).read_text())
    port = free_port()
    (folder / "haproxy.cfg").write_text(
        f"global\n  maxconn 64\ndefaults\n  mode http\n  timeout client 60s\nfrontend push\n"
        f"  bind 127.0.0.1:{port} ssl crt {folder}/both.pem alpn h2\n  http-request return status 200\n"
    )
    run(port, "/usr/sbin/haproxy", "-db", "-q", "-f", str(folder / "haproxy.cfg"))


def nghttpd():
    """The server of nghttp2: returns the body of each request as the body of its answer."""
    port = free_port()
    run(port, "/usr/sbin/nghttpd", "--echo-upload", "--address=127.0.0.1", str(port), key, certificate)


def nginx():
    """Answers before it has read the body, and ends a connection with GOAWAY after so many requests."""
    port = free_port()
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log stderr crit;\n"
        f"events {{}}\nhttp {{ access_log off; keepalive_requests 50; client_body_temp_path {folder};\n"
        f"  server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate {certificate}; ssl_certificate_key {key};\n"
        f"    return 200; }} }}\n"
    )
    run(port, "/usr/sbin/nginx", "-c", str(folder / "nginx.conf"), "-p", str(folder))


def node():
    """Node's own server: sends its response headers before the end of the request, and a body after it."""
    port = free_port()
    program = """
      const [certificate, key, port] = process.argv.slice(1)
      const read = require("fs").readFileSync
      require("http2").createSecureServer({ cert: read(certificate), key: read(key) })
        .on("stream", (stream) => {
          stream.respond({ ":status": 200 })
          stream.resume()
          stream.on("end", () => stream.end("{}"))
        })
        .listen(Number(port), "127.0.0.1")
    """
    run(port, "/usr/bin/node", "-e", program, certificate, key, str(port))


globals()[server]()
