"""How Kubernetes expands `$(NAME)` and `$$` in a container's command, args and the values of its variables,
and how a text is written so that it arrives as it was given.

As k8s.io/kubernetes/third_party/forked/golang/expansion does it (Kubernetes 1.36): `$$` is a dollar sign,
`$(` up to the next `)` a reference, and every other `$` itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_SPECIAL = re.compile(r"\$(?=[$(])")


def escaped(text: str) -> str:
    """`text` in a form that Kubernetes expands to `text`, whichever variables there are.

    Only dollar signs that would be read as something else are doubled: `$HOME` and `$5` stay as they are.
    """
    last = text.rfind(")")

    def double(found: re.Match[str]) -> str:
        closed = text[found.end()] == "$" or found.end() < last
        return "$$" if closed else "$"

    return _SPECIAL.sub(double, text)


def expanded(text: str, values: Mapping[str, str]) -> str:
    """What a kubelet makes of `text`, with these variables; a reference to another one stays as it is."""
    parts: list[str] = []
    done, last = 0, text.rfind(")")
    while (at := text.find("$", done)) >= 0 and at + 1 < len(text):
        parts.append(text[done:at])
        following = text[at + 1]
        end = text.find(")", at + 2) if following == "(" and at + 2 <= last else -1
        if end >= 0:
            parts.append(values.get(text[at + 2 : end], text[at : end + 1]))
            done = end + 1
        else:
            parts.append("$" if following == "$" else f"${following}")
            done = at + 2
    return "".join(parts) + text[done:]
