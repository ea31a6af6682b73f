"""What clients written for older Pythons and for Apple's own servers are given, for Python 2.7 and 3.

Only names of the standard library that are gone or that do not check the server. How the clients frame, send, read and
resend stays as published.
"""

import signal
import ssl


def give_up_after(seconds):
    """Has the system end the program then: some clients wait for ever where the service is not what they expect."""
    signal.alarm(seconds)


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
