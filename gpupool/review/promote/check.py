"""The rule that CI checks: no environment is ahead of the one that its changes come from.

Pure: the target now and before the change under review, and the states of its source. The rule in words is in
docs/promotion.md; how parts are compared, in `gpupool.review.promote.history`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from gpupool.environment.spec.environment import Environment
from gpupool.review.promote.history import JudgedPart, PartStatus, SourceState, standings
from gpupool.review.promote.rules import rules_of
from gpupool.review.promote.shape import Fields, parts, shape_of


@dataclass(frozen=True, slots=True)
class Checked:
    """How one environment compares with the one before it."""

    environment: str
    origin: str
    standings: tuple[JudgedPart, ...]
    unchanged: frozenset[str]
    """Parts that the change under review leaves as they were."""
    together: frozenset[str]
    """Parts that the change under review brings to the source as well, so that the source has not had them
    before."""
    notices: tuple[str, ...]
    """What a reviewer should know besides."""
    gate: str = ""
    """How the change under review breaks the rule itself; empty where it does not."""

    @property
    def passed(self) -> bool:
        return not self.failing and not self.gate

    @property
    def failing(self) -> tuple[JudgedPart, ...]:
        """Parts that are ahead, by this change."""
        return tuple(standing for standing in self.ahead if standing.part not in self.unchanged)

    @property
    def ahead(self) -> tuple[JudgedPart, ...]:
        return tuple(standing for standing in self.standings if standing.status is PartStatus.ahead)


def check(
    target: Environment,
    before: Environment | None,
    proposed: Environment | None,
    states: Iterable[tuple[str, Environment]],
    today: date,
) -> Checked:
    """Judge `target`, which has `promotion.from`, by `states` of its source, newest first.

    `before`: the target before the change under review, to recognize what was ahead already; None
    to judge everything. `proposed`: the source as the change under review has it.
    """
    promotion = target.promotion
    assert promotion is not None
    assert promotion.from_ is not None
    rules = rules_of(promotion, today)
    now = parts(shape_of(target), rules)
    then = parts(shape_of(before), rules) if before else {}
    unchanged = frozenset(part for part in now if part in then and now[part] == then[part])
    there = parts(shape_of(proposed), rules) if proposed else {}
    sources = (SourceState(label, parts(shape_of(environment), rules)) for label, environment in states)
    return Checked(
        environment=target.metadata.name,
        origin=promotion.from_,
        standings=standings(now, sources),
        unchanged=unchanged,
        together=frozenset(part for part in now if part in there and there[part] == now[part]),
        notices=(*_notices(target, before, today), *_removals(promotion.from_, then, now, there)),
    )


def check_by_former_rules(
    target: Environment,
    before: Environment,
    proposed: Environment | None,
    states: Iterable[tuple[str, Environment]],
    today: date,
) -> Checked:
    """Judge `target` by the `promotion` that the change under review removes or redirects: a change
    must not exempt itself from the rule that it would break. `states` and `proposed` are of the former
    source."""
    former, now = before.promotion, target.promotion
    assert former is not None
    assert former.from_ is not None
    held = target.model_copy(update={"promotion": former})
    checked = check(held, before, proposed, states, today)
    if now is not None and now.from_ is not None:
        # The judgement by the new source reports exceptions and the new source.
        return replace(checked, notices=())
    name, origin = target.metadata.name, former.from_
    if _but_for_promotion(target) == _but_for_promotion(before):
        notice = f"this change removes promotion.from: {name} is no longer compared with {origin}"
        return replace(checked, notices=(*checked.notices, notice))
    return replace(checked, gate=f"this change removes promotion.from ({origin}) and also changes {name}")


def lost_source(target: Environment, before: Environment | None) -> str | None:
    """The environment that changes came from before the change under review, where they no longer do."""
    former = before.promotion.from_ if before is not None and before.promotion else None
    now = target.promotion.from_ if target.promotion else None
    return former if former != now else None


def _but_for_promotion(environment: Environment) -> dict[str, Any]:
    return environment.model_dump(mode="json", exclude={"promotion"})


def _removals(
    origin: str, then: Mapping[str, Fields], now: Mapping[str, Fields], there: Mapping[str, Fields]
) -> Iterator[str]:
    for part in then:
        if part not in now and part in there:
            yield f"this change removes {part}, which {origin} has"


def _notices(target: Environment, before: Environment | None, today: date) -> Iterator[str]:
    promotion = target.promotion
    assert promotion is not None
    for exception in promotion.exceptions:
        if exception.until < today:
            yield f"the exception for {exception.path} ended on {exception.until}; remove it"
        else:
            owner = f", {exception.owner}" if exception.owner else ""
            yield f"{exception.path} may differ until {exception.until}: {exception.reason}{owner}"
    if before is not None and before.promotion is not None:
        for path in promotion.keep:
            if path not in before.promotion.keep:
                yield f"this change adds {path} to promotion.keep: it is no longer promoted"
        if before.promotion.from_ != promotion.from_:
            former = before.promotion.from_
            yield f"this change sets the promotion source to {promotion.from_} instead of {former}"
    elif before is not None:
        yield f"this change sets the promotion source to {promotion.from_}"
