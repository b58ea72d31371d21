"""The CEL functions that Kubernetes adds, as plain Python functions with their declarations.

`OVERLOADS` is what the API server's environment has for admission policies besides cel-go's standard library,
strings, sets, optionals and two-variable comprehensions, as of Kubernetes 1.36 (apiserver 0.36
pkg/cel/environment/base.go). Nothing here may depend on the evaluator: a function gets Python values and
returns one, or raises CelError.
"""

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

OVERLOADS: tuple[Overload, ...] = (
    *urls.OVERLOADS,
    *patterns.OVERLOADS,
    *lists.OVERLOADS,
    *authorization.OVERLOADS,
    *quantities.OVERLOADS,
    *networks.OVERLOADS,
    *name_formats.OVERLOADS,
    *versions.OVERLOADS,
)
"""Every function, where the order of one name's overloads is the order in which they are tried."""
