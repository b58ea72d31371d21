"""Who asks, from a name and groups as a person gives them.

Adds the groups that the API server's authenticators add by themselves; it checks no rights (see `rbac`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from policies.engine.request import User

AUTHENTICATED: Final = "system:authenticated"
_SERVICE_ACCOUNT = "system:serviceaccount:"


def identity(name: str = "", groups: Sequence[str] = ()) -> User:
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
    return User(name=name, groups=every) if name else User(groups=every)
