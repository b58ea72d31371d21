"""A report as a document: which chapters, tables and lists it has, and what they say, for every format
alike."""

from __future__ import annotations

from collections import Counter

from gpupool.environment.catalog.models import PRICE_REGION
from gpupool.environment.money import usd
from gpupool.environment.plan.changes.model import BeforeAfter
from gpupool.findings import Category
from gpupool.review.report import environment_blocks, phrases
from gpupool.review.report.blocks import (
    AlertLine,
    AlertLines,
    Block,
    Chapter,
    Column,
    Paragraph,
    Piece,
    ReportDocument,
    Table,
    Words,
    words,
)
from gpupool.review.report.model import EnvironmentReport, ProjectState, Report

_OVERVIEW = (
    Column("Environment"), Column("Risks"), Column("Nodes"), Column("Pools"), Column("GPUs"),
    Column("Cost a month"),
)  # fmt: skip
_FOOTER = (
    f"Cost is USD for a month of 730 hours at the prices of {PRICE_REGION}: least with the nodes that are "
    "kept ready, most with every pool at its maximum. It is a risk if it increases by more than "
    "{:g}%.",
    "In drawings of a GPU, dashed and hatched areas are not available to pods.",
)


def document_of(report: Report) -> ReportDocument:
    """Everything that the report says, in the order in which it is to be read."""
    threshold, *rest = _FOOTER
    return ReportDocument(
        report.base.name,
        report.head.name,
        BeforeAfter(_state(report.base), _state(report.head)),
        report.today.isoformat(),
        headline(report),
        report.notes,
        tuple(_overview(report)),
        tuple(_chapters(report)),
        _unchanged(report),
        (threshold.format(report.cost_threshold), *rest),
    )


def headline(report: Report) -> str:
    """The whole report in one or two sentences."""
    if not report.changed:
        return "no environment changes"
    several = len(report.changed) != 1
    changed = f"{len(report.changed)} of {phrases.plural(len(report.environments), 'environment')} change"
    parts = [changed + ("" if several else "s")]
    broken = [environment.name for environment in report.environments if environment.invalid.after]
    if broken:
        parts.append(f"{', '.join(broken)} can't be used")
    risks = _counted_risks(*report.environments)
    return ", ".join([*parts, risks] if risks else parts if broken else [*parts, "no known risks"])


def _counted_risks(*environments: EnvironmentReport) -> str:
    counts = Counter(risk.category.value for environment in environments for risk in environment.risks)
    return ", ".join(phrases.plural(counts[name], name) for name in ("danger", "caution") if counts[name])


def _state(state: ProjectState) -> Words:
    commit = Piece(state.commit[:10], "code") if state.commit else Piece("no commit")
    return words(commit, ", with changes" if state.dirty else "")


def _identity(report: Report, environment: EnvironmentReport) -> str:
    return f"environment-{report.environments.index(environment) + 1}"


def _name(report: Report, environment: EnvironmentReport) -> Piece:
    return Piece(environment.name, "name", _identity(report, environment))


def _overview(report: Report) -> list[Block]:
    dangers = [
        AlertLine(risk.category, risk.code, risk.what, _name(report, environment))
        for environment in report.environments
        for risk in environment.risks
        if risk.category is Category.danger
    ]
    rows = [_overview_row(report, environment) for environment in report.changed]
    overview: list[Block] = [AlertLines(dangers)] if dangers else []
    if rows:
        overview.append(Table("What changes, with every pool at its maximum", _OVERVIEW, rows))
    return overview


def _overview_row(report: Report, environment: EnvironmentReport) -> list[Words]:
    named = [words(_name(report, environment)), words(_counted_risks(environment) or "none known")]
    if environment.invalid.after:
        return [*named, words("the file is not valid after the change"), *[words("-")] * 3]
    gpus = environment.gpus
    return [
        *named,
        words(phrases.disturbed(environment.effects)),
        words(phrases.counted_changes(pool.change for pool in environment.pools) or "none"),
        words(f"{gpus.before} to {gpus.after}" if gpus.changed else f"{gpus.after}, as before"),
        words(_ceiling(environment)),
    ]


def _ceiling(environment: EnvironmentReport) -> str:
    """What is spent at most after the change, and how that differs from before."""
    before, after = environment.cost.before, environment.cost.after
    if environment.change == "removed":
        return f"nothing, before at most {usd(before.ceiling)}" if before else "nothing"
    if after is None:
        return "unknown"
    most = f"at most {usd(after.ceiling)}"
    if environment.change == "added":
        return f"{most}, new"
    if before is None:
        return f"{most}, before unknown"
    return f"{most}, {phrases.percent(before.ceiling, after.ceiling)}"


def _chapters(report: Report) -> list[Chapter]:
    chapters = []
    if together := environment_blocks.findings(report.together):
        about = words("Findings across environments.")
        chapters.append(Chapter("together", "All environments together", "", about, (together,)))
    for environment in report.environments:
        blocks = tuple(environment_blocks.blocks_of(environment))
        if environment.change != "unchanged" or blocks:
            about = words(Piece(environment.file, "code"), phrases.platform(environment.platform))
            chapters.append(
                Chapter(_identity(report, environment), environment.name, environment.change, about, blocks)
            )
    return chapters


def _unchanged(report: Report) -> Words:
    pieces: list[Piece] = []
    for environment in report.unchanged:
        edited = " (edited, to no effect)" if environment.edited else ""
        after = " (can't be used, as before)" if environment.invalid.after else edited
        pieces += [*words(", " if pieces else ""), Piece(environment.name, "name"), *words(after)]
    return tuple(pieces)


def unchanged_paragraph(document: ReportDocument) -> Paragraph | None:
    """The environments in which nothing changes, where there are any."""
    return Paragraph(words("Unchanged: ", *document.unchanged, ".")) if document.unchanged else None
