"""The report for a terminal: the same facts in the same order as the Markdown comment, in plain lines.

Colour only where it is asked for; every mark is a word, so that nothing is lost without it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from gpupool.report import phrases
from gpupool.report.model import (
    EnvironmentReport,
    FindingChanges,
    NodeEffect,
    PolicyNote,
    Report,
    Risk,
    State,
)
from gpupool.terminal import BOLD, PLAIN, RED, YELLOW

_WIDTH = 100


def text(report: Report, *, colour: bool = False) -> str:
    """The whole report; ends with a line break."""
    lines = [f"{_state(report.base)} -> {_state(report.head)}", phrases.headline(report)]
    lines += [line for note in report.notes for line in _wrapped(note)]
    for environment in report.changed:
        lines += ["", *_environment(environment, colour)]
    if report.together.new or report.together.fixed:
        lines += ["", "all environments together", *_findings(report.together)]
    unchanged = [_unchanged(environment) for environment in report.unchanged]
    if unchanged:
        lines += ["", f"unchanged: {', '.join(unchanged)}"]
    for environment in report.unchanged:
        for note in environment.waivers:
            lines += _wrapped(f"{environment.name}: {phrases.waiver_words(note)}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _state(state: State) -> str:
    commit = f" ({state.commit[:10]}{', with changes' if state.dirty else ''})" if state.commit else ""
    return f"{state.name}{commit}"


def _unchanged(environment: EnvironmentReport) -> str:
    edited = " (edited, to no effect)" if environment.edited else ""
    return environment.name + (" (can't be used, as before)" if environment.invalid.after else edited)


def _environment(environment: EnvironmentReport, colour: bool) -> Iterator[str]:
    bold, plain = (BOLD, PLAIN) if colour else ("", "")
    yield f"{bold}{environment.name}: {environment.change}{plain}"
    for when, notes in (("after", environment.invalid.after), ("before", environment.invalid.before)):
        if notes:
            yield f"  {environment.file} can't be used {when} the change, so there is nothing to compare:"
        for note in notes:
            where = " ".join(part for part in (note.object, note.path) if part)
            yield from _note(where, note)
    for risk in environment.risks:
        yield from _risk(risk, colour)
    if environment.pools or environment.settings:
        yield ""
        figures = phrases.figures(environment)
        yield from _table([(name, before, "->", after) for name, before, after in figures])
    if environment.effects:
        yield from ("", "  nodes, in the order in which it happens:")
        for number, effect in enumerate(environment.effects, 1):
            yield from _effect(number, effect)
        for explained in environment.notes:
            yield from _wrapped(explained, 5)
    yield from _pools(environment)
    yield from _tenants(environment)
    if environment.settings:
        yield from ("", "  other settings:")
        yield from _table([(f.name, f.before or "-", "->", f.after or "-") for f in environment.settings])
    if environment.findings.new or environment.findings.fixed:
        yield from ("", f"  policy ({environment.findings.remaining} findings as before):")
        yield from _findings(environment.findings)
    if environment.waivers:
        yield from ("", "  waivers:")
        for waiver in environment.waivers:
            yield from _wrapped(phrases.waiver_words(waiver), 4)
    yield from _live(environment)


def _risk(risk: Risk, colour: bool) -> Iterator[str]:
    mark = "DANGER" if risk.severity == "danger" else "caution"
    first, *rest = _wrapped(f"{mark} {risk.kind}: {risk.text}")
    if colour:
        first = first.replace(mark, f"{RED if risk.severity == 'danger' else YELLOW}{mark}{PLAIN}", 1)
    yield from (first, *rest)


def _effect(number: int, effect: NodeEffect) -> Iterator[str]:
    where = effect.pool or "every pool"
    if effect.node_pool and effect.node_pool != effect.pool:
        where += f" ({effect.node_pool})"
    yield from _wrapped(f"{number}. {effect.kind} {where}: {effect.what}", 4, 7)
    yield from _wrapped(f"why: {effect.reason}", 7)
    if effect.pods_at_risk:
        rows = [
            (
                f"{pod.namespace}/{pod.name}",
                pod.tenant or "no tenant",
                pod.node,
                pod.requests,
                phrases.age(pod.age_seconds),
                (pod.owner or "nothing brings it back") + (", holds its node" if pod.protected else ""),
            )
            for pod in effect.pods_at_risk
        ]
        yield from _table(rows, 7)


def _pools(environment: EnvironmentReport) -> Iterator[str]:
    if not environment.changed_pools:
        return
    yield from ("", f"  pools ({phrases.changes_said(pool.change for pool in environment.pools)}):")
    rows = []
    for pool in environment.changed_pools:
        for index, (name, before, after) in enumerate(phrases.pool_rows(pool)):
            head = (pool.name, pool.change) if index == 0 else ("", "")
            rows.append((*head, name, before, "->", after))
    yield from _table(rows)
    for name, lines in phrases.layout_drawings(environment):
        yield from ("", f"  partitions of each GPU of {name}:", *(f"    {line}" for line in lines))


def _tenants(environment: EnvironmentReport) -> Iterator[str]:
    if not environment.changed_tenants:
        return
    yield from ("", f"  tenants ({phrases.changes_said(tenant.change for tenant in environment.tenants)}):")
    rows = phrases.tenant_rows(environment)
    yield from _table([(*start, before, "->", after) for *start, before, after in rows])


def _findings(findings: FindingChanges) -> Iterator[str]:
    for word, notes in (("new", findings.new), ("fixed", findings.fixed)):
        for note in notes:
            about = ", ".join(part for part in (note.rule, note.object, note.path) if part)
            yield from _note(f"{word} {note.level} {about}", note)


def _note(about: str, note: PolicyNote) -> list[str]:
    return _wrapped("; ".join(part for part in (f"{about}: {note.message}", note.fix) if part), 4)


def _live(environment: EnvironmentReport) -> Iterator[str]:
    live = environment.live
    if live is None:
        return
    counts = ", ".join(f"{pool} {count}" for pool, count in live.nodes) or "none"
    yield from ("", *_wrapped(f"nodes in {live.cluster} now: {counts}"))


def _wrapped(sentence: str, indent: int = 2, after: int | None = None) -> list[str]:
    hanging = indent + 2 if after is None else after
    return textwrap.wrap(
        " ".join(sentence.split()),
        _WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _table(rows: Sequence[Sequence[str]], indent: int = 4) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield " " * indent + "  ".join(cells).rstrip()
