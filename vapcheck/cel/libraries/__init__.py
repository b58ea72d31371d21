"""The CEL functions that Kubernetes adds, as plain Python functions with their declarations.

`OVERLOADS` is what the API server's environment has for admission policies besides cel-go's standard library,
strings, sets, optionals and two-variable comprehensions (those are older than any minor that is known). From
which minor on a library is there is data (since.json). Nothing here may depend on the evaluator: a function
gets Python values and returns one, or raises CelError.
"""

import functools
import json
from pathlib import Path

from vapcheck.cel.libraries import (
    authorization,
    lists,
    name_formats,
    networks,
    patterns,
    quantities,
    urls,
    versions,
)
from vapcheck.cel.libraries.declaration import Overload
from vapcheck.server.minors import number

ALL = ""
"""In place of a minor: every function that is known."""
_LIBRARIES: dict[str, tuple[Overload, ...]] = {
    "library.URLs": urls.OVERLOADS,
    "library.Regex": patterns.OVERLOADS,
    "library.Lists": lists.OVERLOADS,
    "ext.Lists": lists.EXTENSION,
    "library.Authz": authorization.OVERLOADS,
    "library.AuthzSelectors": authorization.SELECTORS,
    "library.Quantity": quantities.OVERLOADS,
    "library.IP, library.CIDR": networks.OVERLOADS,
    "library.Format": name_formats.OVERLOADS,
    "library.SemverLib": versions.OVERLOADS,
}
"""By the name that the API server's environment has for each."""
OVERLOADS: tuple[Overload, ...] = tuple(overload for rows in _LIBRARIES.values() for overload in rows)
"""Every function, where the order of one name's overloads is the order in which they are tried."""


def overloads(minor: str) -> tuple[Overload, ...]:
    """What a new expression may call in that minor of Kubernetes; `ALL` for everything.

    The API server compiles what is new with the libraries of the minor before its own, so that it can be
    rolled back (DefaultCompatibilityVersion: MinCompatibilityVersion, the binary's minor less one;
    component-base compatibility/version.go). A policy that an older server has stored keeps what it had; none
    is judged so here.
    """
    if minor == ALL:
        return OVERLOADS
    compatible = number(minor) - 1
    return tuple(
        overload
        for name, rows in _LIBRARIES.items()
        if number(_since()[name]) <= compatible
        for overload in rows
    )


@functools.cache
def _since() -> dict[str, str]:
    """The first minor of each library."""
    found: dict[str, str] = json.loads((Path(__file__).parent / "since.json").read_bytes())["since"]
    return found
