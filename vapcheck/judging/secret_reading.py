"""Which expressions of a policy read what is in a Secret, so that their results can be withheld.

Decided from the text of the expressions, conservatively: every use of the Secret except for its
names, labels and type counts as reading it. It must not evaluate anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from vapcheck.cel.tokens import code_of
from vapcheck.manifests.secret_kinds import SECRET_KINDS
from vapcheck.policy.model import Policy

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which `kubectl apply` keeps the whole object, contents included."""
_ROOTS = {"object", "oldObject", "params", "request", "namespaceObject", "authorizer", "variables"}
_WORD = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\b(?!\s*\()")
_AFTER_DOT = re.compile(r"\.\s*\??\s*[A-Za-z_`]\w*")
_NOT_NAMES = {"true", "false", "null", "in"}
_VARIABLE = re.compile(r"\bvariables\b(?:\s*\.\s*(\w+))?")
_DOT = r"\s*\.\s*\??\s*"


class SecretReading:
    """The expressions of one policy, for one object that they judged."""

    def __init__(self, policy: Policy, *, of_secret: bool, annotations: bool) -> None:
        """`of_secret`: the object is a Secret. `annotations`: some Secret has its contents there too."""
        roots = ["object", "oldObject"] if of_secret else []
        if policy.param_kind is not None and policy.param_kind[1] in SECRET_KINDS:
            roots.append("params")
        self.concerned = bool(roots)
        """Whether the policy received a Secret at all."""
        open_fields = "name|generateName|namespace|labels" + ("" if annotations else "|annotations")
        safe = rf"{_DOT}(?:kind|apiVersion|type|immutable|metadata{_DOT}(?:{open_fields}))\b"
        self._root = re.compile(rf"\b(?:{'|'.join(roots) or '(?!)'})\b(?!{safe})")
        self._variables: set[str] = set()
        for variable in policy.variables:
            if self.reads(variable.text):
                self._variables.add(variable.name)

    def reads(self, expression: str) -> bool:
        """Whether an expression uses what is in the Secret, itself or through variables."""
        code = code_of(expression)
        if self._root.search(code) or '"' in code.replace('""', "") or "'" in code:
            return True
        return any(name is None or name in self._variables for name in _variables_in(code))

    def part_reads(self, part: str) -> bool:
        """The same of a part of an expression, in which the elements that a macro goes through are names
        that say nothing of where they come from."""
        code = _AFTER_DOT.sub(".x", code_of(part))
        names = {match[1] for match in _WORD.finditer(code)}
        return "…" in part or not names <= _ROOTS | _NOT_NAMES or self.reads(part)  # long parts are cut


def _variables_in(code: str) -> Iterable[str | None]:
    """The variables that are read; None for a use of all of them."""
    return (match[1] for match in _VARIABLE.finditer(code))
