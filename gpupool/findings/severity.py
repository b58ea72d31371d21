"""How severe a finding is: the one table of severities, and the one of the words that commands use."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, StrEnum

from gpupool.findings.terminal import CYAN, RED, YELLOW


class Severity(Enum):
    """Exit code, level in SARIF 2.1.0 (section 3.27.10) and colour. The names are those of GitHub's
    annotations."""

    error = (1, "error", RED)
    warning = (0, "warning", YELLOW)
    notice = (0, "note", CYAN)

    def __init__(self, exit_code: int, sarif: str, colour: str) -> None:
        self.exit_code = exit_code
        self.sarif = sarif
        self.colour = colour

    @property
    def rank(self) -> int:
        """0 for the most severe."""
        return list(Severity).index(self)


class Category(StrEnum):
    """What a command calls a finding, with the severity of it."""

    severity: Severity

    def __new__(cls, word: str, severity: Severity) -> Category:
        member = str.__new__(cls, word)
        member._value_ = word
        member.severity = severity
        return member

    # Files that can't be used.
    invalid = ("invalid", Severity.error)
    # Actions of Kubernetes' policies, and of the rules over a bundle.
    deny = ("deny", Severity.error)
    warn = ("warn", Severity.warning)
    audit = ("audit", Severity.notice)
    # assert: the cluster differs; a change is in progress; the cluster is as the file says, but check it.
    drift = ("drift", Severity.error)
    warning = ("warning", Severity.warning)
    settling = ("settling", Severity.notice)
    # doctor: `up` fails; `up` works, but something should be done; it can't be known.
    blocking = ("blocking", Severity.error)
    advisory = ("advisory", Severity.warning)
    unknown = ("unknown", Severity.notice)
    # report: work is lost or protection ends; it costs, or somebody has to know. Reviewers decide, not CI.
    danger = ("danger", Severity.warning)
    caution = ("caution", Severity.notice)
    # convert: a pool is missing; fill it in; it can't have worked; chosen; it has no place in the file.
    missing = ("missing", Severity.error)
    todo = ("todo", Severity.warning)
    wrong = ("wrong", Severity.warning)
    assumed = ("assumed", Severity.notice)
    left = ("left", Severity.notice)
    # simulate --assert: the figure is not what is required.
    failed = ("failed", Severity.error)


def exit_code(categories: Iterable[Category]) -> int:
    """What a command exits with that found these."""
    return max((category.severity.exit_code for category in categories), default=0)
