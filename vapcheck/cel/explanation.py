"""Why an expression gave what it gave: which element failed, where in the object, and the values compared.

It evaluates parts of the expression again, only for the people who read a finding; the verdict is never taken
from here, and whatever can't be explained is left out.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from vapcheck.cel.errors import EvaluationError
from vapcheck.cel.frame import new_frame
from vapcheck.cel.parts import deep_stack
from vapcheck.cel.planner import VARIABLE_PREFIX, PlanError, Planner
from vapcheck.cel.program import PER_CALL_LIMIT, Program, Scope
from vapcheck.cel.source_text import source_text
from vapcheck.cel.syntax import Call, Comprehension, Identifier, Literal, Node, Select, Tree
from vapcheck.cel.values import Optional

_DEPTH = 50


@dataclass(frozen=True, slots=True)
class Explanation:
    """What can be said about a result."""

    path: str
    """Where in `object` the reason is, as `spec.containers[2].image`; empty when it isn't known."""
    readings: tuple[tuple[str, Any], ...]
    """The parts that decided, as written, and their values."""


@dataclass(slots=True)
class _Position:
    """A place in the expression while it is being explained."""

    tree: Tree
    node: Node
    values: dict[str, Any]
    """Values of the comprehensions' variables."""
    origins: dict[str, str] = field(default_factory=dict)
    """Where those values are in the object."""

    def at(self, node: Node, tree: Tree | None = None) -> _Position:
        if tree is not None:
            return _Position(tree, node, {}, {})
        return _Position(self.tree, node, self.values, self.origins)


def explain(program: Program, scope: Scope) -> Explanation:
    """Follow a false, or failed, expression down to what made it so. Never raises."""
    explainer = _Explainer(scope)
    try:
        with deep_stack() if program.tree.deep else nullcontext():
            whole = _Position(program.tree, program.tree.root, {}, {})
            path, readings = explainer.follow(whole, False, _DEPTH)
    except RecursionError:
        return Explanation("", ())
    return Explanation(path, tuple(readings.items()))


class _Explainer:
    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def value(self, place: _Position) -> Any:
        """The value of a part; its error as a value."""
        planner = Planner(place.tree)
        scope = self._scope.with_values(place.values)
        try:
            run = planner.plan(place.node).run
            return run(new_frame(planner.size, PER_CALL_LIMIT, scope.values, scope))
        except (EvaluationError, PlanError) as error:
            return error if isinstance(error, EvaluationError) else EvaluationError(str(error))

    def follow(self, place: _Position, wanted: bool, depth: int) -> tuple[str, dict[str, Any]]:
        """Path and readings for a part that is `wanted`, or an error."""
        node = place.node
        if depth == 0:
            return "", {}
        if isinstance(node, Identifier) and node.name.startswith(VARIABLE_PREFIX):
            program = self._scope.variables.get(node.name.removeprefix(VARIABLE_PREFIX))
            if program is not None and program.result_type == "bool":
                return self.follow(place.at(program.tree.root, program.tree), wanted, depth - 1)
        if isinstance(node, Comprehension):
            return self._element(place, wanted, depth)
        if not isinstance(node, Call):
            return self._leaf(place)
        if node.function == "!_":
            return self.follow(place.at(node.arguments[0]), not wanted, depth - 1)
        if node.function == "_?_:_":
            chosen = self.value(place.at(node.arguments[0]))
            if isinstance(chosen, bool):
                return self.follow(place.at(node.arguments[1 if chosen else 2]), wanted, depth - 1)
        if node.function in ("_&&_", "_||_"):
            return self._terms(place, node, wanted, depth)
        return self._leaf(place)

    def _terms(self, place: _Position, node: Call, wanted: bool, depth: int) -> tuple[str, dict[str, Any]]:
        """The first term that settles it; where none does, all of them, and the path of the last."""
        settles = node.function == "_||_"
        found: list[tuple[str, dict[str, Any]]] = []
        for term in node.arguments:
            value = self.value(place.at(term))
            if settles == wanted and value is not wanted and not isinstance(value, EvaluationError):
                continue
            found.append(self.follow(place.at(term), wanted, depth - 1))
            if settles == wanted:
                break
        path = next((path for path, _ in reversed(found) if path), "")
        readings: dict[str, Any] = {}
        for _, more in found:
            readings |= more
        return path, readings

    def _element(self, place: _Position, wanted: bool, depth: int) -> tuple[str, dict[str, Any]]:
        """The element of a list or map for which all() failed, or exists() held."""
        node = place.node
        assert isinstance(node, Comprehension)
        step = node.step
        quantifier = isinstance(step, Call) and step.function in ("_&&_", "_||_")
        whole = self.path(place.at(node.range), depth)
        if not quantifier or not isinstance(step, Call) or (step.function == "_||_") != wanted:
            return whole, {source_text(node.range): self.value(place.at(node.range))}
        for key, value, origin in self._elements(place.at(node.range), depth):
            names = [node.variable, node.second_variable] if node.second_variable else [node.variable]
            single = key if isinstance(key, str) else value  # one variable goes through a map's keys
            bound = dict(zip(names, (key, value) if node.second_variable else (single,), strict=True))
            inner = _Position(
                place.tree,
                step.arguments[1],
                place.values | bound,
                {**place.origins, names[-1]: origin} if origin else dict(place.origins),
            )
            verdict = self.value(inner)
            if verdict is wanted or isinstance(verdict, EvaluationError):
                path, readings = self.follow(inner, wanted, depth - 1)
                return path or origin, readings
        return whole, {}

    def _elements(self, place: _Position, depth: int) -> list[tuple[Any, Any, str]]:
        """Index or key, value and path of each element of a range."""
        node = place.node
        if depth == 0:
            return []
        if isinstance(node, Identifier) and node.name.startswith(VARIABLE_PREFIX):
            program = self._scope.variables.get(node.name.removeprefix(VARIABLE_PREFIX))
            if program is not None:
                return self._elements(place.at(program.tree.root, program.tree), depth - 1)
        if isinstance(node, Call) and node.function == "_+_":
            return [each for part in node.arguments for each in self._elements(place.at(part), depth - 1)]
        if isinstance(node, Call) and node.function == "_?_:_":
            chosen = self.value(place.at(node.arguments[0]))
            return self._elements(place.at(node.arguments[1 if chosen is True else 2]), depth - 1)
        path = self.path(place, depth)
        value = self.value(place)
        if isinstance(value, dict):
            return [(key, each, f"{path}[{key!r}]" if path else "") for key, each in value.items()]
        if isinstance(value, (list, tuple)):
            return [(index, each, f"{path}[{index}]" if path else "") for index, each in enumerate(value)]
        return []

    def _leaf(self, place: _Position) -> tuple[str, dict[str, Any]]:
        """Operands of a comparison or call that aren't constants, and where the first one is."""
        node = place.node
        parts = node.operands if isinstance(node, Call) and not self.path(place, _DEPTH) else [node]
        readings: dict[str, Any] = {}
        paths: list[str] = []
        for part in parts:
            if isinstance(part, Literal):
                continue
            value = self.value(place.at(part))
            readings[source_text(part)] = value.value if isinstance(value, Optional) else value
            inner = part
            while isinstance(inner, Call) and inner.operands and not self.path(place.at(inner), _DEPTH):
                inner = inner.operands[0]
            paths.append(self.path(place.at(inner), _DEPTH))
        return next((path for path in paths if path), ""), readings

    def path(self, place: _Position, depth: int) -> str:
        """Where in the object the value of a chain is; empty for anything else."""
        node = place.node
        if depth == 0:
            return ""
        if isinstance(node, Identifier):
            return place.origins.get(node.name, "")
        if isinstance(node, Select):
            return self._below(place, node.operand, node.field, depth)
        if isinstance(node, Call) and node.function in ("_[_]", "_[?_]", "_?._"):
            operand, index = node.operands
            return self._below(place, operand, self.value(place.at(index)), depth)
        if isinstance(node, Call) and node.function == "orValue" and node.target is not None:
            return self.path(place.at(node.target), depth - 1)
        return ""

    def _below(self, place: _Position, operand: Node, key: Any, depth: int) -> str:
        if isinstance(operand, Identifier) and operand.name == "object":
            return key if isinstance(key, str) else ""
        whole = self.path(place.at(operand), depth - 1)
        if not whole:
            return ""
        if isinstance(key, str) and key.isidentifier():
            return f"{whole}.{key}"
        return f"{whole}[{key!r}]" if isinstance(key, (str, int)) else ""
