"""How long to wait before the next connection. Section 11 of the protocol."""

from __future__ import annotations

import random

LONGEST_SECONDS = 300.0
#: A connection that was accepted for so long shows that connecting works.
STEADY_SECONDS = 30.0


class Backoff:
    def __init__(self, source: random.Random | None = None) -> None:
        self._random = source or random.Random()
        self._seconds = 1.0

    def is_steady(self, accepted_seconds: float | None) -> bool:
        return accepted_seconds is not None and accepted_seconds >= STEADY_SECONDS

    def reset(self) -> None:
        self._seconds = 1.0

    def after_goodbye(self, reconnect_milliseconds: int) -> float:
        """The seconds that the service asked for."""
        self.reset()
        return min(reconnect_milliseconds / 1000, LONGEST_SECONDS)

    def after_end(self, accepted_seconds: float | None) -> float:
        """The seconds after a failure, or after a connection that was accepted for so many."""
        if self.is_steady(accepted_seconds):
            self.reset()
        wait = self._seconds
        self._seconds = min(2 * wait, LONGEST_SECONDS)
        return self._random.uniform(wait / 2, wait)
