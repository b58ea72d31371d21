"""Recognizing the macros behind comprehensions, so that each gets its own loop.

Facts: cel-go 0.26 parser/macro.go and ext/comprehensions.go, whose shapes the checker's macros share.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from vapcheck.cel import comprehensions
from vapcheck.cel.comprehensions import Fold
from vapcheck.cel.frame import Run, Step
from vapcheck.cel.syntax import Call, Comprehension, Identifier, ListLiteral, Literal, Node


class ComprehensionPlanner(Protocol):
    """What compiles the parts of a comprehension."""

    pending: set[int]

    def plan(self, node: Node) -> Step:
        """The step for an expression."""

    def names(self, **names: str) -> AbstractContextManager[dict[str, int]]:
        """Slots for the comprehension's variables while its body is compiled."""


def comprehension(planner: ComprehensionPlanner, node: Comprehension) -> Run:
    source = planner.plan(node.range)
    if source.constant and source.value == [] and _is_false(node.condition):
        return _binding(planner, node)
    initial = planner.plan(node.initial).run
    with planner.names(
        first=node.variable, second=node.second_variable, accumulator=node.accumulator
    ) as slots:
        fold = Fold(
            source.run,
            slots["first"],
            slots["second"] if node.second_variable else None,
            slots["accumulator"],
        )
        run = _macro(planner, node, fold)
        if run is not None:
            return run
        planner.pending.add(fold.accumulator)
        steps = [planner.plan(part).run for part in (node.condition, node.step, node.result)]
        planner.pending.discard(fold.accumulator)
        return comprehensions.general(fold, initial, *steps)


def _binding(planner: ComprehensionPlanner, node: Comprehension) -> Run:
    initial = planner.plan(node.initial).run
    with planner.names(accumulator=node.accumulator) as slots:
        slot = slots["accumulator"]
        planner.pending.add(slot)
        run = comprehensions.binding(slot, initial, planner.plan(node.result).run)
        planner.pending.discard(slot)
    return run


def _macro(planner: ComprehensionPlanner, node: Comprehension, fold: Fold) -> Run | None:
    """The loop of a known macro; None for another fold."""
    step, accumulator = node.step, node.accumulator
    if not isinstance(step, Call):
        return None
    if (
        step.function in ("_&&_", "_||_")
        and _is_name(step.arguments[0], accumulator)
        and isinstance(node.initial, Literal)
    ):
        verdict = step.function == "_||_"
        if node.initial.value is not (not verdict) or not _is_name(node.result, accumulator):
            return None
        predicate = planner.plan(step.arguments[1]).run
        if fold.second is None:
            return comprehensions.list_quantifier(fold, predicate, verdict)
        return comprehensions.quantifier(fold, predicate, verdict)
    condition: Node | None = None
    if step.function == "_?_:_":
        condition, chosen, otherwise = step.arguments
        if not isinstance(chosen, Call) or not _is_name(otherwise, accumulator):
            return None
        step = chosen
    if not step.arguments or not _is_name(step.arguments[0], accumulator):
        return None
    return _accumulation(planner, node, step, condition, fold)


def _accumulation(
    planner: ComprehensionPlanner, node: Comprehension, step: Call, condition: Node | None, fold: Fold
) -> Run | None:
    test = None if condition is None else planner.plan(condition).run
    if step.function == "cel.@mapInsert" and _is_name(node.result, node.accumulator):
        entry = planner.plan(step.arguments[-1]).run
        key = planner.plan(step.arguments[1]).run if len(step.arguments) == 3 else None
        return comprehensions.insert(fold, entry, key, test)
    added = step.arguments[1]
    if step.function != "_+_":
        return None
    if (
        isinstance(added, ListLiteral)
        and len(added.elements) == 1
        and _is_name(node.result, node.accumulator)
    ):
        if added.optional:
            return None
        element = planner.plan(added.elements[0])
        cost = 2 if element.constant else 2 + comprehensions.LIST_COST
        return comprehensions.collect(fold, element.run, test, cost)
    if test is not None and isinstance(added, Literal) and isinstance(node.result, Call):
        return comprehensions.exactly_one(fold, test)
    return None


def _is_name(node: Node, name: str) -> bool:
    return isinstance(node, Identifier) and node.name == name


def _is_false(node: Node) -> bool:
    return isinstance(node, Literal) and node.value is False
