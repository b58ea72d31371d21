"""The user of a request, from a name and groups as a person gives them.

Adds the groups that the API server's authenticators add by themselves; it does not check permissions (see
`rbac`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from vapcheck.judging.request import User

AUTHENTICATED: Final = "system:authenticated"
NO_EXTRA: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
_SERVICE_ACCOUNT = "system:serviceaccount:"


def identity(
    name: str = "", groups: Sequence[str] = (), uid: str = "", extra: Mapping[str, tuple[str, ...]] = NO_EXTRA
) -> User:
    """The user called `name` (default: the engine's own) in `groups` and those that follow from the name.

    Service accounts belong to system:serviceaccounts and that of their namespace, and every user to
    system:authenticated (Kubernetes 1.36, authentication/serviceaccount and authentication/group).
    """
    implied: list[str] = []
    if name.startswith(_SERVICE_ACCOUNT):
        namespace = name.removeprefix(_SERVICE_ACCOUNT).partition(":")[0]
        implied += ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    if name != "system:anonymous":
        implied.append(AUTHENTICATED)
    every = tuple(dict.fromkeys([*groups, *implied]))
    return User(name or User().name, every, uid, extra)


def read_extra(pairs: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """What `userInfo.extra` has, of KEY=VALUE texts; a key that is there again has one more value. Raises
    ValueError, with the text, for what is no such pair."""
    found: dict[str, tuple[str, ...]] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise ValueError(pair)
        found[key] = (*found.get(key, ()), value)
    return found
