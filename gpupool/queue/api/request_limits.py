"""How much one caller, and all together, may have under way at the same time.

For what is dear while it lasts: bodies that are read, streams, explanations. Counted in memory, for one
replica.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from gpupool.queue.api.problems import ApiProblem


class AtOnce:
    """At most `each` for a caller, who is any text, and `all` together. `what` says of what, in an error."""

    def __init__(self, what: str, each: int, all: int) -> None:
        self._what, self._each, self._all = what, each, all
        self._held = Counter[str]()

    @contextmanager
    def hold(self, caller: str) -> Iterator[HeldRequests]:
        """Give back at the end what was taken in between."""
        held = HeldRequests(self, caller)
        try:
            yield held
        finally:
            self._held[caller] -= held.amount
            if not self._held[caller]:
                del self._held[caller]

    def take(self, caller: str, amount: int) -> None:
        """Raises ApiProblem where it is too much."""
        if self._held[caller] + amount > self._each:
            self._refuse(f"{self._each} {self._what} at once are allowed to each caller")
        if self._held.total() + amount > self._all:
            self._refuse(f"{self._all} {self._what} are under way already")
        self._held[caller] += amount

    def _refuse(self, detail: str) -> None:
        raise ApiProblem("rate-limited", detail, {"Retry-After": "1"})


class HeldRequests:
    """What one holder has taken."""

    def __init__(self, of: AtOnce, caller: str) -> None:
        self._of, self._caller = of, caller
        self.amount = 0

    def take(self, amount: int = 1) -> None:
        """Take so much more. Raises ApiProblem."""
        self._of.take(self._caller, amount)
        self.amount += amount
