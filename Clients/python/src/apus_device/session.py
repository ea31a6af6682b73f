"""What a client knows of one connection, and what follows its end."""

from __future__ import annotations

import asyncio
import math
import random
import time

from . import messages
from .backoff import Backoff
from .connection import Ended
from .rotation import Rotation


class Session:
    """One connection."""

    def __init__(self) -> None:
        self.is_refused = False
        self.is_silent = False
        self.has_goodbye = False
        self.explanation = ""
        self.reconnect_milliseconds: int | None = None
        self._accepted_time: float | None = None
        self._clock_offset = 0.0
        #: When to ask for a certificate because the service advised it, by the monotonic clock.
        self.advised_time = math.inf
        #: Before which not to ask.
        self.renewal_time = 0.0
        self.renewal_changed = asyncio.Event()

    def accept(self, server_milliseconds: int) -> None:
        self._accepted_time = time.monotonic()
        self._clock_offset = server_milliseconds / 1000 - time.time()

    @property
    def accepted_seconds(self) -> float | None:
        return None if self._accepted_time is None else time.monotonic() - self._accepted_time

    def service_time(self) -> float:
        return time.time() + self._clock_offset

    def renew_within(self, seconds: int) -> None:
        self.advised_time = time.monotonic() + random.uniform(0, seconds)
        self.renewal_time = 0.0
        self.renewal_changed.set()

    def end(self, goodbye: messages.Goodbye) -> None:
        self.has_goodbye = True
        self.reconnect_milliseconds = goodbye.reconnect_milliseconds
        raise Ended(f"goodbye: {goodbye.reason}")


def wait_seconds(session: Session, rotation: Rotation, backoff: Backoff) -> float:
    """Chooses the address of the next connection, and says how long to wait before it. Section 11 of the protocol."""
    accepted_seconds = session.accepted_seconds
    if accepted_seconds is not None or session.is_refused:
        rotation.answered()
    if session.is_refused or session.has_goodbye:
        rotation.restart()
    else:
        is_steady = backoff.is_steady(accepted_seconds)
        if is_steady:
            backoff.reset()
        if rotation.fell_silent() if is_steady and session.is_silent else rotation.failed(is_steady):
            return 0
    if session.reconnect_milliseconds is not None:
        return backoff.after_goodbye(session.reconnect_milliseconds)
    return backoff.after_end(accepted_seconds)
