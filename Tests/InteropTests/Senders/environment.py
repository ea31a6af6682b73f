"""What clients written for older Pythons and for Apple's own servers are given, for Python 2.7 and 3.

Only names of the standard library that are gone or that do not check the server. How the clients frame, send, read and
resend stays as published.
"""

import os
import ssl
import sys
import threading


def give_up_after(seconds):
    """Ends the program with an error then: some clients never do when the service is not what they expect."""

    def end():
        sys.stderr.write("the client was not done in %d s\n" % seconds)
        sys.stderr.flush()
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def give_wrap_socket(authority, hostname):
    """Puts ssl.wrap_socket where Python 3.12 took it away, made to trust `authority` and nothing else.

    To be called before the client is imported: some take the name out of the module at once.
    """

    def wrap_socket(sock, keyfile=None, certfile=None, do_handshake_on_connect=True):
        context = ssl.create_default_context(cafile=authority)
        context.load_cert_chain(certfile, keyfile)
        return context.wrap_socket(
            sock, server_hostname=hostname, do_handshake_on_connect=do_handshake_on_connect
        )

    ssl.wrap_socket = wrap_socket
