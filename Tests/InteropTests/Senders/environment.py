"""Adapts clients written for older Pythons and for Apple's servers, for Python 2.7 and 3.

It replaces only names of the standard library that were removed or that do not verify the server. How the clients
frame, send, read and resend remains as published.
"""

import signal
import ssl


def give_up_after(seconds):
    """Ends the program after a time: some clients wait forever if the service does not behave as they expect."""
    signal.alarm(seconds)


def give_wrap_socket(authority, hostname):
    """Restores ssl.wrap_socket, which Python 3.12 removed, and makes it trust only `authority`.

    Call it before importing the client: some import the name from the module at once.
    """

    def wrap_socket(sock, keyfile=None, certfile=None, do_handshake_on_connect=True):
        context = ssl.create_default_context(cafile=authority)
        context.load_cert_chain(certfile, keyfile)
        return context.wrap_socket(
            sock, server_hostname=hostname, do_handshake_on_connect=do_handshake_on_connect
        )

    ssl.wrap_socket = wrap_socket
