"""Which of a service's addresses is tried next."""

from __future__ import annotations


class Rotation:
    """A round begins with the address that the service named (the hint), or else with the one that worked last, tries
    each address once, and ends with a wait.

    What says that an attempt failed returns whether the next one, at `current` or at the hint, follows at once.
    """

    def __init__(self, count: int) -> None:
        self.current = 0
        #: Whether the hint is tried next, or connected, in place of `current`.
        self.is_at_hint = False
        self._has_hint = False
        #: Whether this round has tried a hint: services that name another one and close would be tried without a wait.
        self._is_hint_spent = False
        self._count = count
        self._preferred = 0
        #: Addresses that this round has not tried yet, besides the current one.
        self._untried = count - 1

    def answered(self) -> None:
        """The service accepted the device, or refused it.

        That does not begin a round: one that accepts and closes at once would be tried without a wait.
        """
        self._preferred = self.current

    def hinted(self, has_hint: bool) -> None:
        """The service named an address to try first, or none."""
        self._has_hint = has_hint

    def failed(self, was_steady: bool) -> bool:
        """The address failed, or its connection was lost: for one that was steady, the first failure of a new round."""
        if was_steady:
            self._untried, self._is_hint_spent = self._count - 1, self.is_at_hint
        if self.is_at_hint:
            self.is_at_hint = self._has_hint = False
            return True
        if self._has_hint and not self._is_hint_spent:
            self.is_at_hint = self._is_hint_spent = True
            return True
        if self._untried == 0:
            self.restart()
            return False
        self._untried -= 1
        self.current = (self.current + 1) % self._count
        return True

    def fell_silent(self) -> bool:
        """A steady connection was lost in silence: the network may have forgotten it, so its address is tried first."""
        self.restart()
        return self._count > 1 or self.is_at_hint

    def restart(self) -> None:
        """The next attempt begins a round: after a goodbye or a refusal, which other addresses do not change."""
        self.current = self._preferred
        self._untried = self._count - 1
        self.is_at_hint = self._is_hint_spent = self._has_hint
