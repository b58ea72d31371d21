"""What judging many objects leads to besides findings: counts, and what was missing or had to be assumed.

Shares of it come back from several processes and are put together here. It writes no messages (see
`overview`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum


class Reach(IntEnum):
    """How far an object got with a policy that was not evaluated on it, by what left it out in the end."""

    RULES = 0
    """No rule of the policy names its kind, or the operation."""
    SELECTORS = 1
    """The policy's selectors or resourceNames."""
    BINDINGS = 2
    """The match criteria of every binding."""
    CONDITIONS = 3
    """A match condition."""


@dataclass(slots=True)
class UnseenNamespace:
    """A namespace that is not given although its labels are asked for."""

    file: str
    """Where the first object in it is."""
    line: int
    selecting: set[str] = field(default_factory=set)
    """The bindings that select by its labels, or whose policy does."""
    reading: set[str] = field(default_factory=set)
    """The policies whose expressions read namespaceObject."""


@dataclass(slots=True)
class Tally:
    """Everything counted so far."""

    matched: dict[str, int]
    """Objects that each policy was evaluated on, by its name."""
    evaluations: int = 0
    """CEL expressions evaluated."""
    unparameterised: dict[str, str] = field(default_factory=dict)
    """Policies that allowed an object because a parameter is missing, with the name of such a binding."""
    reached: dict[str, Reach] = field(default_factory=dict)
    """How far any object got, of policies by which one was left out."""
    unseen: dict[str, UnseenNamespace] = field(default_factory=dict)
    """By the namespace's name."""
    assumed: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    """Kinds (apiVersion, kind) taken for namespaced, with file and line of the first object."""

    @classmethod
    def of(cls, policies: Iterable[str]) -> Tally:
        """Nothing counted yet."""
        return cls(dict.fromkeys(policies, 0))

    def reach(self, policy: str, how_far: Reach) -> None:
        """Note how far an object got that the policy was not evaluated on."""
        if self.reached.get(policy, -1) < how_far:
            self.reached[policy] = how_far

    def absorb(self, other: Tally) -> None:
        """Add what came after this was counted."""
        self.evaluations += other.evaluations
        for name, count in other.matched.items():
            self.matched[name] += count
        self.unparameterised |= other.unparameterised
        for name, how_far in other.reached.items():
            self.reach(name, how_far)
        for name, theirs in other.unseen.items():
            ours = self.unseen.setdefault(name, theirs)
            ours.selecting |= theirs.selecting
            ours.reading |= theirs.reading
        self.assumed = other.assumed | self.assumed
