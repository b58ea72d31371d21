"""Decisions of an evaluation as findings: their level, and everything that a reader wants to know."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from vapcheck.judging.evaluation import PolicyDecision
from vapcheck.manifests.documents import Document
from vapcheck.outcome import Level, ObjectRef, PolicyFinding
from vapcheck.policy.model import Binding, Policy
from vapcheck.policy.policy_set import engine_finding

IGNORED = " (ignored: failurePolicy Ignore)"
"""Behind the message of an error that keeps nothing out."""

_LEVELS: dict[str, Level] = {"Deny": "deny", "Warn": "warn", "Audit": "audit"}


def not_judged(document: Document, error: Exception) -> PolicyFinding:
    """For an object that could not be judged because of a defect. The error's text is left out, because it
    may contain what is in a Secret."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}" if frame else "the engine"
    message = f"could not be evaluated: {type(error).__name__} in {where}, a bug in this program"
    finding = engine_finding("not-judged", document, "", message)
    return replace(
        finding, remediation="check the object for unusual values, and report the bug with the object"
    )


def config_level(policy: Policy) -> Level:
    """Of what keeps a policy from being evaluated at all: the binding's actions don't count."""
    return "deny" if policy.fails_closed else "audit"


def level_of(policy: Policy, binding: Binding, decision: PolicyDecision) -> Level:
    """Of one decision under a binding."""
    if decision.kind != "violation" and not policy.fails_closed:
        return "audit"  # the server allows the request; report at least the failed expression
    if decision.kind == "audit-error":
        return "deny"  # denied whatever the binding's actions are
    # A binding whose actions can't be read is refused itself; what it would have enforced is denied.
    actions = (action for action in ("Deny", "Warn", "Audit") if action in binding.actions)
    return _LEVELS[next(actions, "Deny")]


def finding_of(
    policy: Policy,
    binding: Binding | None,
    decision: PolicyDecision,
    level: Level,
    document: Document,
    path: str,
) -> PolicyFinding:
    """What a decision says about an object; `path` leads to the part of it that was judged."""
    path = ".".join(part for part in (path, decision.path) if part)
    line, column = document.position(path)
    message = decision.message
    if decision.kind != "violation" and not policy.fails_closed:
        message += IGNORED
    return PolicyFinding(
        level=level,
        rule=policy.name,
        message=message,
        binding=binding.name if binding else None,
        object=ObjectRef.of(document.body),
        file=document.file,
        line=line,
        column=column,
        path=path,
        reason=decision.reason if decision.kind == "violation" else "",
        expression=decision.expression.text if decision.expression else "",
        values=decision.values,
        shows_values=decision.shows_values,
        title=policy.text("title"),
        why=policy.text("why"),
        remediation=policy.text("fix"),
    )
