"""What to do about an expression that reads a variable which it can't see.

The compiler says "undefined field 'b'" of one that does not exist, of one that comes later, and of one that
reads itself through others. It must not compile: it reads the text after the compiler has refused it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from vapcheck.cel.tokens import code_of
from vapcheck.policy.model import Expression, Policy

_READ = re.compile(r"(?<![\w.])variables\s*\.\s*\??\s*([A-Za-z_]\w*)")
_ORDER = "a variable sees only those above it in spec.variables"


def advice(policy: Policy, row: Expression, refusal: str) -> str:
    """How to fix a row of the policy that was refused with this message; empty for any other message."""
    unseen = next((name for name in _reads(row) if f"undefined field '{name}'" in refusal), None)
    if unseen is None:
        return ""
    names = [variable.name for variable in policy.variables]
    if row in policy.conditions:
        return f"Match conditions can't use variables; replace variables.{unseen} with its expression."
    if unseen not in names:
        return _no_such(unseen, names)
    # Declared and not seen: the row is a variable itself, and comes first.
    circle = _circle(row.name, unseen, {variable.name: _reads(variable) for variable in policy.variables})
    if circle:
        cycle = " -> ".join(circle)
        said = f"The variable {row.name!r} reads itself ({cycle}), but {_ORDER}"
        return f"{said}; write one of them without the next one."
    return f"Move the variable {unseen!r} above {row.name!r}: {_ORDER}."


def _reads(row: Expression) -> list[str]:
    return _READ.findall(code_of(row.text))


def _no_such(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, 1, 0.6)
    if near:
        return f"There is no variable {name!r}; did you mean {near[0]!r}?"
    known = f"defined: {', '.join(names)}" if names else "none is defined"
    return f"Add a variable {name!r} to spec.variables, or correct the name; {known}."


def _circle(name: str, first: str, reads: Mapping[str, Sequence[str]]) -> list[str]:
    """The path from a variable through `first` back to itself, or nothing."""
    paths, seen = [[name, first]], {first}
    while paths:
        path = paths.pop(0)
        if path[-1] == name:
            return path
        for following in reads.get(path[-1], ()):
            if following == name or following not in seen:
                seen.add(following)
                paths.append([*path, following])
    return []
