"""What could not be read, as findings of a `policy check`: told in every output, with its place.

Reads nothing, and knows only errors and findings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from gpupool.findings import Finding, GpupoolError
from vapcheck import PolicyFinding, Problem
from vapcheck.manifests.documents import is_not_kubernetes, is_taken

UNREADABLE = "unreadable"
"""The rule under which files that can't be read are reported."""
NOT_KUBERNETES = "not-kubernetes"
"""The rule under which files in a folder are reported that seem to be another tool's."""
DUPLICATE_KEY = "duplicate-key"
"""The rule under which keys are reported that stand twice in an object."""
_PLACE = re.compile(r"(?P<file>[^:]+)(:(?P<line>[0-9]+):(?P<column>[0-9]+))?: (?P<message>.*)", re.DOTALL)


def unreadable(problems: Iterable[Finding | Problem]) -> tuple[PolicyFinding, ...]:
    """A denial for each, but a warning for what is probably no manifest and for what kubectl takes."""
    return tuple(
        PolicyFinding(
            level="deny" if rule == UNREADABLE else "warn",
            rule=rule,
            message=problem.message,
            origin="document",
            file=problem.file,
            line=problem.line,
            column=problem.column,
            path=problem.path if isinstance(problem, Finding) else "",
            fix=problem.hint,
        )
        for problem in problems
        for rule in [_rule(problem)]
    )


def _rule(problem: Finding | Problem) -> str:
    if isinstance(problem, Finding):
        return UNREADABLE
    if is_taken(problem):
        return DUPLICATE_KEY
    return NOT_KUBERNETES if is_not_kubernetes(problem) else UNREADABLE


def refused(error: GpupoolError, path: Path) -> PolicyFinding:
    """An error that keeps the environment at `path` from being judged, at the file that its text names."""
    text = str(error)
    match = _PLACE.fullmatch(text)
    if match is None or not Path(match["file"]).is_file():
        return PolicyFinding("deny", UNREADABLE, text, origin="document", file=str(path))
    message, _, fix = match["message"].rpartition("; ")
    return PolicyFinding(
        level="deny",
        rule=UNREADABLE,
        message=message or fix,
        origin="document",
        file=match["file"],
        line=int(match["line"] or 0),
        column=int(match["column"] or 0),
        fix=fix if message else "",
    )
