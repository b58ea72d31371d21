"""Read a kubeconfig: which server, whom to trust, who we are. Nothing is ever written or logged here.

Covers what kubectl does with tokens, token files, client certificates, basic authentication and exec
plugins (aws eks get-token and the like). Auth provider plugins, which Kubernetes 1.26 removed, are
refused. Sources: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/ and
https://kubernetes.io/docs/reference/config-api/client-authentication.v1/.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpupool.findings import GpupoolError

_EXEC_SECONDS = 60


class KubeconfigError(GpupoolError):
    """A kubeconfig that can't be used; the text names the file, what is wrong and what to do."""


@dataclass(frozen=True)
class Access:
    """How to reach one cluster as one user. Holds credentials: never log or store it."""

    context: str
    server: str
    ssl_context: ssl.SSLContext | None = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


def default_path() -> Path:
    """The kubeconfig that kubectl would read: the first file of KUBECONFIG that exists, or ~/.kube/config."""
    for part in os.environ.get("KUBECONFIG", "").split(os.pathsep):
        if part and Path(part).expanduser().is_file():
            return Path(part).expanduser()
    return Path.home() / ".kube" / "config"


def load(path: Path | None = None, context: str | None = None) -> Access:
    """The access that `context` (default: the current one) of the kubeconfig at `path` describes.

    Raises KubeconfigError for a missing or unusable file, an unknown context, or a failing exec plugin.
    """
    file = path or default_path()
    config = _read(file)
    name = context or config.get("current-context") or ""
    entry = _named(file, config, "contexts", "context", name)
    cluster = _named(file, config, "clusters", "cluster", entry.get("cluster", ""))
    user = _named(file, config, "users", "user", entry["user"]) if entry.get("user") else {}
    server = str(cluster.get("server", "")).rstrip("/")
    if not server.startswith(("http://", "https://")):
        raise KubeconfigError(f'{file}: cluster "{entry.get("cluster")}" has no server address (https://...)')
    if "exec" in user:
        user = {**user, **_exec_credential(file, user["exec"])}
    if "auth-provider" in user:
        raise KubeconfigError(f"{file}: auth-provider is no longer part of Kubernetes; use an exec plugin")
    trust = _ssl_context(file, cluster, user) if server.startswith("https://") else None
    return Access(name, server, trust, _headers(file, user))


def _read(file: Path) -> dict[str, Any]:
    try:
        config = yaml.safe_load(file.read_text())
    except OSError as error:
        raise KubeconfigError(
            f"{file}: {error.strerror}; set KUBECONFIG or start the local control plane (gpupool local up)"
        ) from error
    except yaml.YAMLError as error:
        raise KubeconfigError(f"{file}: not YAML: {error}") from error
    if not isinstance(config, dict):
        raise KubeconfigError(f"{file}: not a kubeconfig")
    return config


def _named(file: Path, config: Mapping[str, Any], group: str, key: str, name: str) -> dict[str, Any]:
    rows = config.get(group) or []
    for row in rows:
        if row.get("name") == name:
            return row.get(key) or {}
    known = ", ".join(str(row.get("name")) for row in rows) or "none"
    raise KubeconfigError(f'{file}: no {key} "{name}"; there are: {known}')


def _headers(file: Path, user: Mapping[str, Any]) -> dict[str, str]:
    token = user.get("token")
    if not token and user.get("tokenFile"):
        token = _beside(file, user["tokenFile"]).read_text().strip()
    if token:
        return {"Authorization": f"Bearer {token}"}
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {}


def _ssl_context(file: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    try:
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif authority := _pem(file, cluster, "certificate-authority"):
            context.load_verify_locations(cadata=authority)
        certificate, key = _pem(file, user, "client-certificate"), _pem(file, user, "client-key")
        if certificate and key:
            # ssl reads certificates from files only; the folder is ours alone and gone at once.
            with tempfile.TemporaryDirectory() as folder:
                pair = Path(folder, "pair.pem")
                pair.touch(mode=0o600)
                pair.write_text(certificate + "\n" + key)
                context.load_cert_chain(pair)
    except (OSError, ValueError) as error:
        raise KubeconfigError(f"{file}: certificates can't be used: {error}") from error
    return context


def _pem(file: Path, section: Mapping[str, Any], key: str) -> str | None:
    if section.get(f"{key}-data"):
        return base64.b64decode(section[f"{key}-data"]).decode()
    if section.get(key):
        return _beside(file, section[key]).read_text()
    return None


def _beside(file: Path, name: str) -> Path:
    """Relative paths in a kubeconfig count from the file's folder."""
    return file.parent / Path(name).expanduser()


def _exec_credential(file: Path, plugin: Mapping[str, Any]) -> dict[str, Any]:
    """Run an exec plugin and return token or client certificate as the user section would have them."""
    command = [str(plugin["command"]), *map(str, plugin.get("args") or [])]
    info = {
        "apiVersion": plugin.get("apiVersion", "client.authentication.k8s.io/v1"),
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }
    extra = {row["name"]: row["value"] for row in plugin.get("env") or []}
    env = {**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=_EXEC_SECONDS, check=True
        )
        status = json.loads(done.stdout)["status"]
    except subprocess.CalledProcessError as error:
        raise KubeconfigError(f"{file}: `{command[0]}` failed: {error.stderr.strip()}") from error
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
        raise KubeconfigError(f"{file}: `{command[0]}` gave no credential: {error}") from error
    found = {"token": status.get("token")}
    if status.get("clientCertificateData"):
        found["client-certificate-data"] = base64.b64encode(status["clientCertificateData"].encode()).decode()
        found["client-key-data"] = base64.b64encode(status["clientKeyData"].encode()).decode()
    return found
