"""Waivers that a change touches, that end soon, or that have ended."""

from __future__ import annotations

from datetime import date

from gpupool.environment.plan.model import Plan
from gpupool.environment.spec.services import Waiver
from gpupool.review.report.model import WaiverChange, WaiverNote

SOON_DAYS = 30
"""Every report lists a waiver that ends within so many days."""


def waiver_notes(before: Plan | None, after: Plan | None, today: date) -> tuple[WaiverNote, ...]:
    """The waivers to list, the first to end on top. A waiver is known by policy and namespace."""
    old = {(one.policy, one.namespace): one for one in (before.policies.waivers if before else ())}
    new = {(one.policy, one.namespace): one for one in (after.policies.waivers if after else ())}
    notes = [_note(waiver, _change(old.get(key), waiver), today) for key, waiver in new.items()]
    notes += [_note(waiver, "removed", today) for key, waiver in old.items() if key not in new]
    reported = [note for note in notes if note.change != "unchanged" or note.days_left <= SOON_DAYS]
    return tuple(sorted(reported, key=lambda note: (note.until, note.policy, note.namespace or "")))


def _change(before: Waiver | None, after: Waiver) -> WaiverChange:
    if before is None:
        return "added"
    if after.until == before.until:
        return "unchanged"
    return "extended" if after.until > before.until else "shortened"


def _note(waiver: Waiver, change: WaiverChange, today: date) -> WaiverNote:
    return WaiverNote(
        policy=waiver.policy,
        namespace=waiver.namespace,
        owner=waiver.owner,
        reason=waiver.reason,
        until=waiver.until,
        days_left=(waiver.until - today).days,
        change=change,
    )
