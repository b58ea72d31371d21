"""Tokens, keys and kubeconfigs of one control plane; files only their owner can read.

Tokens never appear in an argument list or an environment variable. The API server makes its own TLS
certificate.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gpupool.live.cluster.local_layout import CONTEXT, Layout


def write_private(path: Path, text: str) -> None:
    """Write `text` to `path` with mode 0600, in one step for readers."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)
    fresh.replace(path)


def ensure(layout: Layout, users: Iterable[str]) -> dict[str, str]:
    """The token of each user, made up at the first call and kept with the instance afterwards.

    Every user is a cluster administrator: the control plane lives and dies on one machine, and separate
    names show in managedFields and logs who did what.
    """
    known: dict[str, str] = {}
    text = layout.tokens.read_text() if layout.tokens.exists() else ""
    for line in text.splitlines():
        token, _, rest = line.partition(",")
        known[rest.partition(",")[0]] = token
    wanted = {user: known.get(user) or secrets.token_urlsafe(32) for user in users}
    rows = "".join(f'{token},{user},{user},"system:masters"\n' for user, token in wanted.items())
    if rows != text:
        write_private(layout.tokens, rows)
    if not all(path.exists() for path in (layout.service_account_key, *layout.kubelet)):
        from gpupool.local import keys  # takes a third of a second to import

        write_private(layout.service_account_key, keys.service_account_key())
        for path, content in zip(layout.kubelet, keys.kubelet_pair(), strict=True):
            write_private(path, content)
    return wanted


def certificate_written(layout: Layout) -> bool:
    """Whether the API server has written its certificate to the end.

    For a moment the file is there and empty, and clients that trust nothing never find the server ready.
    """
    path = layout.certificate
    return path.exists() and path.read_text().endswith("-----END CERTIFICATE-----\n")


def write_kubeconfigs(layout: Layout, server: str, tokens: Mapping[str, str]) -> list[Path]:
    """Write the administrator's kubeconfig and one for each component, from the certificate as it is written.
    Returns those that had to be changed.
    """
    written = []
    authority = base64.b64encode(layout.certificate.read_bytes()).decode()
    for user, token in tokens.items():
        path = layout.kubeconfig if user == "admin" else layout.kubeconfig_of(user)
        text = json.dumps(_kubeconfig(server, authority, token), indent=2) + "\n"
        if not path.exists() or path.read_text() != text:
            write_private(path, text)
            written.append(path)
    return written


def _kubeconfig(server: str, authority: str, token: str) -> dict[str, Any]:
    """JSON is YAML, so that kubectl reads it and no emitter can spoil the token."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTEXT,
        "clusters": [
            {"name": CONTEXT, "cluster": {"server": server, "certificate-authority-data": authority}}
        ],
        "users": [{"name": CONTEXT, "user": {"token": token}}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT}}],
    }
