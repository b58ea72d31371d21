"""Turning a checked tree into steps that run: one Python closure for each expression.

It decides what cel-go's planner decides (interpreter/planner.go, 0.26, with constant folding on): which
parts are constant, which are attributes, what each costs. The steps themselves are in attributes, logic and
comprehensions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from vapcheck.cel import logic, macros
from vapcheck.cel.attributes import Qualifier, checked_key, computed_chain, global_chain, local_chain
from vapcheck.cel.calls import call_step, fragile_step, list_step, map_step, message_step, text_step
from vapcheck.cel.conversions import FOLDED
from vapcheck.cel.errors import EvaluationError
from vapcheck.cel.frame import LOCALS, Run, Step, new_frame
from vapcheck.cel.functions import FRAGILE, PATTERN_FUNCTIONS, function, unguarded
from vapcheck.cel.libraries.patterns import compile_pattern
from vapcheck.cel.operators import BINARY, constant_set, negate
from vapcheck.cel.syntax import (
    Call,
    Comprehension,
    Identifier,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    Tree,
)
from vapcheck.cel.values import TypeValue

VARIABLE_PREFIX = "variables."
"""Begins the names of a policy's variables. They are fields of the API server's object `variables`, so one
costs a unit more than a plain name."""
_INDEXING = {"_[_]": False, "_[?_]": True, "_?._": True}
"""Operators that read an element, and whether they give an optional."""


class PlanError(Exception):
    """The API server refuses the expression when it prepares the program: a constant can't be converted, or a
    pattern can't be compiled."""

    def __init__(self, text: str, node: Node) -> None:
        super().__init__(text)
        self.node = node


def constant(value: Any) -> Step:
    """A step that always gives the same value, free of cost."""
    return Step(lambda _frame: value, True, value)


class Planner:
    """Compiles one tree to steps. It is used for one tree only, because its slots are numbered once."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._slots: dict[str, int] = {}
        """The slot of each comprehension's variable that is in scope."""
        self.pending: set[int] = set()
        """Slots of accumulators that are computed when they are first read; `macros` maintains it."""
        self.size = LOCALS
        """How many slots a frame needs."""
        self._by_node: dict[type, Callable[[Any], Step]] = {
            Literal: lambda node: constant(node.value),
            Identifier: self._identifier,
            Select: lambda node: Step(self._attribute(node, counted=True)),
            Call: self._call,
            ListLiteral: self._list,
            MapLiteral: self._map,
            Comprehension: lambda node: Step(macros.comprehension(self, node)),
        }

    def plan(self, node: Node) -> Step:
        """The step for an expression. Raises PlanError."""
        return self._by_node[type(node)](node)

    def _identifier(self, node: Identifier) -> Step:
        return self._constant_name(node) or Step(self._attribute(node, counted=True))

    def _constant_name(self, node: Identifier) -> Step | None:
        """The step for the name of a type or of a constant; None for that of a variable."""
        if node.name in self._slots:
            return None
        reference = self._tree.references.get(node.id)
        if reference is not None and reference.value is not None:
            return constant(reference.value)
        if self._tree.types.get(node.id, "").startswith("type("):
            return constant(TypeValue(reference.name if reference else node.name))
        return None

    # Attributes: names with fields and indexes

    def _is_attribute(self, node: Node) -> bool:
        """Whether cel-go plans `node` as an attribute."""
        if isinstance(node, Identifier):
            return self._constant_name(node) is None
        return isinstance(node, Select) or (
            isinstance(node, Call) and (node.function in _INDEXING or node.function == "_?_:_")
        )

    def _attribute(self, node: Node, counted: bool) -> Run:
        """The step for a chain of fields and indexes.

        `counted`: whether to add the unit that a chain costs by itself, and does not cost as the index of
        another chain or as a branch of a conditional. A chain that ends in has() never costs it.
        """
        qualifiers: list[Qualifier] = []
        root = node
        while True:
            if isinstance(root, Select):
                qualifiers.append(Qualifier(root.field, test=root.test_only))
                root = root.operand
            elif isinstance(root, Call) and root.function in _INDEXING:
                operand, index = root.operands
                qualifiers.append(self._index(index, _INDEXING[root.function]))
                root = operand
            else:
                break
        chain = tuple(reversed(qualifiers))
        base = int(counted and not (chain and chain[-1].test))
        if isinstance(root, Identifier) and self._constant_name(root) is None:
            return self._named(root.name, chain, base)
        if isinstance(root, Call) and root.function == "_?_:_":
            return computed_chain(self._conditional(root), chain, 0)  # a conditional itself costs nothing
        return computed_chain(self.plan(root).run, chain, base)

    def _named(self, name: str, chain: tuple[Qualifier, ...], base: int) -> Run:
        slot = self._slots.get(name)
        if slot is None:
            return global_chain(name, chain, base + name.startswith(VARIABLE_PREFIX))
        if slot in self.pending:
            return computed_chain(lambda frame: frame[slot].read(frame), chain, base)
        return local_chain(slot, chain, base)

    def _index(self, node: Node, optional: bool) -> Qualifier:
        if self._is_attribute(node):
            return Qualifier(run=self._attribute(node, counted=False), optional=optional)
        step = self.plan(node)
        if step.constant:
            try:
                return Qualifier(checked_key(step.value), optional=optional)
            except EvaluationError as error:
                raise PlanError(str(error), node) from None
        return Qualifier(run=step.run, optional=optional)

    def _uncounted(self, node: Node) -> Run:
        """The step for a branch of a conditional, which does not pay for an attribute by itself."""
        return self._attribute(node, counted=False) if self._is_attribute(node) else self.plan(node).run

    def _conditional(self, node: Call) -> Run:
        condition, then, otherwise = node.arguments
        return logic.conditional(self.plan(condition).run, self._uncounted(then), self._uncounted(otherwise))

    # Calls

    def _call(self, node: Call) -> Step:
        name = node.function
        if name in _INDEXING:
            return Step(self._attribute(node, counted=True))
        if name in ("_&&_", "_||_"):
            return Step(logic.both([self.plan(term).run for term in self._terms(node)], name == "_||_"))
        if name == "_?_:_":
            return Step(self._conditional(node))
        if name == "@not_strictly_false":
            return Step(logic.not_strictly_false(self.plan(node.arguments[0]).run))
        operands = [self.plan(operand) for operand in node.operands]
        if name in ("_==_", "_!=_"):
            return Step(self._equality(operands, name == "_==_"))
        if name in ("or", "orValue") and node.target is not None and len(operands) == 2:
            return Step(logic.alternative(operands[0].run, operands[1].run, name == "orValue"))
        if name == "!_":
            return Step(logic.negation(operands[0].run))
        if name == "-_":
            return Step(logic.unary(negate, operands[0].run))
        if name in BINARY and len(operands) == 2:
            return self._binary(node, operands)
        return self._function(node, operands)

    def _terms(self, node: Call) -> Iterator[Node]:
        for operand in node.arguments:
            if isinstance(operand, Call) and operand.function == node.function:
                yield from self._terms(operand)
            else:
                yield operand

    @staticmethod
    def _equality(operands: list[Step], wanted: bool) -> Run:
        left, right = operands
        if right.constant and type(right.value) is str:
            return logic.equality_with_text(left.run, right.value, wanted)
        return logic.equality(left.run, right.run, wanted)

    def _overloads(self, node: Node) -> tuple[str, ...]:
        reference = self._tree.references.get(node.id)
        return reference.overloads if reference else ()

    def _binary(self, node: Call, operands: list[Step]) -> Step:
        left, right = operands
        overloads = self._overloads(node)
        overload = overloads[0] if len(overloads) == 1 else ""
        if overload == "in_list" and right.constant:
            if not right.value:
                return constant(False)  # folded by cel-go: the left operand is not evaluated
            among = constant_set(right.value)
            if among is not None:
                return Step(logic.membership(left.run, among))
        return Step(logic.binary(BINARY[node.function], left.run, right.run, logic.PRICES.get(overload)))

    def _function(self, node: Call, operands: list[Step]) -> Step:
        overloads = self._overloads(node)
        single = len(overloads) == 1  # the checker could determine which one is called
        compiled = node.function in PATTERN_FUNCTIONS and len(operands) > 1 and operands[1].constant
        if compiled:
            self._check_pattern(operands[1].value, node)
        called = function(node.function, node.target is not None, overloads, compiled)
        if called is None:
            raise PlanError(f"no such overload: {node.function}", node)
        if node.function in FOLDED and len(operands) == 1 and operands[0].constant:
            value = operands[0].value
            call, _price = called([value])
            try:
                return constant(call(value))
            except EvaluationError as error:
                raise PlanError(str(error), node) from None
        simple = unguarded(node.function, overloads, compiled)
        if (
            simple is not None
            and len(operands) == 2
            and operands[1].constant
            and type(operands[1].value) is str
        ):
            return Step(text_step(simple, called, operands[0].run, operands[1].value))
        runs = [operand.run for operand in operands]
        if single and node.function in FRAGILE:
            return Step(fragile_step(called, runs))
        return Step(call_step(called, runs, single and not compiled))

    @staticmethod
    def _check_pattern(pattern: Any, node: Node) -> None:
        try:
            if isinstance(pattern, str):
                compile_pattern(pattern)
        except EvaluationError as error:
            raise PlanError(str(error), node) from None

    # Literals

    def _list(self, node: ListLiteral) -> Step:
        elements = [self.plan(element) for element in node.elements]
        if not node.optional and all(element.constant for element in elements):
            return constant([element.value for element in elements])
        return Step(list_step([element.run for element in elements], node.optional))

    def _map(self, node: MapLiteral) -> Step:
        if node.message:
            fields = [(str(entry.key), self.plan(entry.value).run, entry.optional) for entry in node.entries]
            return Step(message_step(node.message, fields))
        pairs = [
            (self.plan(entry.key), self.plan(entry.value), entry.optional)
            for entry in node.entries
            if not isinstance(entry.key, str)
        ]
        run = map_step([(key.run, value.run, optional) for key, value, optional in pairs])
        if all(key.constant and value.constant and not optional for key, value, optional in pairs):
            try:
                return constant(run(new_frame()))  # constants read nothing of a frame
            except EvaluationError as error:
                raise PlanError(str(error), node) from None
        return Step(run)

    # Macros

    @contextmanager
    def names(self, **names: str) -> Iterator[dict[str, int]]:
        """Slots, by role, for a comprehension's variables; in the `with` block the names stand for them.

        No slot is used twice, because an accumulator may be computed late, in the middle of other loops.
        """
        before = dict(self._slots)
        slots = {}
        for role, name in names.items():
            slots[role] = self.size
            if name:
                self._slots[name] = self.size
            self.size += 1
        yield slots
        self._slots = before
