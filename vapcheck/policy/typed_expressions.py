"""Compiles the expressions of policies with typed objects, many policies in one go.

Setting up the checker takes longer than checking an expression, so all policies share one: the names
`object`, `oldObject`, `params` and `variables` are replaced in their texts by names of the same length that
are unique to the policy. It must not depend on kinds or decide what follows from a problem (`type_check`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vapcheck.cel.environment import AUTHORIZER, REQUEST, Environment, kept_type
from vapcheck.cel.errors import CompileError
from vapcheck.cel.tokens import tokens
from vapcheck.policy.model import Expression, Policy
from vapcheck.server.object_types import DYN, Liberties, ObjectTypes, short_name
from vapcheck.server.schema import Schema

_OWN = frozenset(("object", "oldObject", "params", "variables"))
"""Names that a policy has for itself."""
_CALLED = re.compile(r"\s*\(")
_VARIABLE = re.compile(r"\bv\d{8}\s*\.\s*(\w+)")
_HAS_VARIABLE = re.compile(r"\bhas\((?=\s*v\d{8}\s*\.\s*\w+\s*\))")
"""The checker knows no presence of variables; in its place stands a function of the same length."""
_PROBLEM = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_UNDEFINED = re.compile(r"undefined field '(\w+)'")
_AS_MAP = re.compile(
    r"no matching overload for '(?:_\[_\]|_\[\?_\]|@in|size|_==_|_!=_)' "
    r"|cannot be the range of a comprehension"
)
"""What a map may be used for and an object not, as far as the checker knows."""


@dataclass(frozen=True, slots=True)
class TypeProblem:
    """What the checker says about one place of an expression; line and column count from 1."""

    message: str
    remediation: str
    line: int
    column: int


@dataclass(slots=True)
class Attempt:
    """One policy with its objects typed; `attempt` fills `raw` in."""

    policy: Policy
    schemas: tuple[Schema, ...]
    """Of the kinds that `object` may have; it has the fields of all of them."""
    params: Schema | None
    number: int
    """Makes the policy's names unique."""
    texts: tuple[tuple[Expression, str, frozenset[str]], ...]
    """Each expression, its text with the policy's own names, and the policy's variables that it reads."""
    names: frozenset[str]
    """All words of the policy."""
    liberties: Liberties = field(default_factory=Liberties)
    types: ObjectTypes = field(init=False)
    raw: dict[str, str] = field(default_factory=dict)
    """What the checker said, by the expression's path."""

    @classmethod
    def of(cls, policy: Policy, schemas: tuple[Schema, ...], params: Schema | None, number: int) -> Attempt:
        texts, names = [], set[str]()
        for row in _expressions(policy):
            text = _own(row.text, number, names)
            texts.append((row, text, frozenset(_variable(name, number) for name in _VARIABLE.findall(text))))
        return cls(policy, schemas, params, number, tuple(texts), frozenset(names))

    def begin(self) -> dict[str, str]:
        """Start again with the restrictions dropped so far. Returns the policy's names with their types."""
        self.raw = {}
        self.types = ObjectTypes(f"kubernetes.o{self.number}_", self.names, self.liberties)
        whole = self.types.declare(self.schemas)
        names = {_name("object", self.number): whole, _name("oldObject", self.number): whole}
        if self.policy.param_kind:
            names[_name("params", self.number)] = self.types.declare((self.params,)) if self.params else DYN
        return names

    def problems(self) -> Iterator[tuple[Expression, list[TypeProblem]]]:
        """What is wrong, by expression."""
        for row, _, _ in self.texts:
            if row.path in self.raw:
                yield row, [p for p in map(self._problem, _PROBLEM.finditer(self.raw[row.path])) if p]

    def take_liberties(self) -> bool:
        """Allow what works in evaluation although the checker objects; whether there is anything new."""
        before = len(self.liberties.alike), len(self.liberties.loose)
        for text in self.raw.values():
            for match in _PROBLEM.finditer(text):
                if match[3].startswith("undefined field"):
                    continue
                named = dict.fromkeys(re.findall(r"[\w.]+", match[3]))
                definitions = [known for name in named if (known := self.types.definitions(name))]
                if len(definitions) > 1:
                    self.liberties.unite([schema for known in definitions for schema in known])
                elif definitions and _AS_MAP.search(match[3]):
                    self.liberties.loosen(definitions[0])
        return before != (len(self.liberties.alike), len(self.liberties.loose))

    def _problem(self, found: re.Match[str]) -> TypeProblem | None:
        line, column, message = int(found[1]), int(found[2]), found[3]
        if "*error*" in message:
            return None  # follows from another one
        remediation = ""
        if undefined := _UNDEFINED.search(message):
            remediation = self.types.advice(undefined[1])
        shown = re.sub(rf"\bkubernetes\.o{self.number}_\w+", lambda name: self._types_of(name[0]), message)
        return TypeProblem(shown, remediation, line, column)

    def _types_of(self, name: str) -> str:
        """What a type of ours stands for, in words: `PodSpec or JobSpec`."""
        return " or ".join(sorted({short_name(schema) for schema in self.types.definitions(name)})) or name


_Row = tuple[Attempt, Expression, str, frozenset[str]]


def attempt(attempts: Sequence[Attempt]) -> None:
    """Checks every expression of these policies, variables before what reads them."""
    names = REQUEST | AUTHORIZER
    for one in attempts:
        names |= one.begin()
    waiting = [(one, *row) for one in attempts for row in one.texts]
    while waiting:
        table = {name: fields for one in attempts for name, fields in one.types.table.items()}
        environment = Environment(names, table)
        known, ready, later = set(names), list[_Row](), list[_Row]()
        for item in waiting:
            (ready if item[3] <= known else later).append(item)
        if not ready:
            return  # variables that read each other: such a policy does not compile
        waiting = later
        for one, row, text, _ in ready:
            signature = DYN
            try:
                signature = kept_type(environment.compile(text).result_type, table)
            except CompileError as error:
                one.raw[row.path] = error.message
            if row.path.startswith("spec.variables"):
                names[_variable(row.name, one.number)] = signature


def _expressions(policy: Policy) -> Iterator[Expression]:
    yield from policy.conditions
    yield from policy.variables
    for validation in policy.validations:
        yield validation.expression
        if validation.message_expression:
            yield validation.message_expression
    yield from policy.audit_annotations


def _own(text: str, number: int, names: set[str]) -> str:
    """The text with the policy's own names; every other word is added to `names`."""

    made = list[str]()
    for token in tokens(text):
        field = text[max(token.start - 2, 0) : token.start].endswith((".", ".?"))
        if token.kind != "name":
            made.append(token.text)
        elif token.text in _OWN and not field and not _CALLED.match(text, token.end):
            made.append(_name(token.text, number))
        else:
            names.add(token.text)
            made.append(token.text)
    return _HAS_VARIABLE.sub("dyn(", "".join(made))


def _name(name: str, number: int) -> str:
    """A policy's own name for `object` and the like, of the same length."""
    first = {"object": "o", "oldObject": "p", "params": "q", "variables": "v"}[name]
    return f"{first}{number:0{len(name) - 1}}"


def _variable(name: str, number: int) -> str:
    return f"{_name('variables', number)}.{name}"
