"""The parts of the control plane: how each is started, in which order, and when it counts as ready.

Their flags are data (components.yaml). It starts nothing itself (see `control_plane`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from gpupool.environment import shipped
from gpupool.live.cluster.local_layout import Layout
from gpupool.local import crds
from gpupool.local.credentials import write_private
from gpupool.local.instance_types import karpenter_instance_types
from gpupool.local.nvidia_operator import files
from gpupool.programs.failures import LocalError

_FOLDER = Path(__file__).parent
_GROUPS = yaml.load((_FOLDER / "components.yaml").read_bytes(), Loader=yaml.CSafeLoader)
CORE, AFTER_CORE, AFTER_CRDS, ON_REQUEST = map(tuple, _GROUPS.values())
"""Names of the components in the order of their start; the reverse is the order of the stop."""
NAMES = (*CORE, *AFTER_CORE, *AFTER_CRDS)
"""Those that every control plane has."""
_ROWS: dict[str, dict[str, Any]] = {name: row for group in _GROUPS.values() for name, row in group.items()}
MODULES = tuple(name for name in NAMES if "module" in _ROWS[name])
"""Components that run in this Python; they make a file once they are ready."""
PROGRAMS = tuple(name for name in NAMES if name not in MODULES)
"""Those that are programs of binaries.yaml."""
USERS = ("admin", *AFTER_CORE, *AFTER_CRDS, *ON_REQUEST)
GO_RUNTIME = {"GOGC": "400"}
"""Memory for time: at Go's default of 100 a quarter of the API server's processor time collects garbage when
thousands of objects come and go."""
APIS_VARIABLE = "GPUPOOL_LOCAL_APIS"
"""`all` serves alpha and beta versions too; unset, the API server has those that a cluster has by default."""
OPERATOR_VARIABLE = "GPUPOOL_LOCAL_OPERATOR"
"""`real` runs NVIDIA's own controller of the GPU Operator; unset, there is the simulated one alone."""
AUDIT_VARIABLE = "GPUPOOL_LOCAL_AUDIT"
"""Path of an audit policy by which the API server writes logs/audit.log; unset, it writes none."""
JOB_SECONDS_VARIABLE = "GPUPOOL_LOCAL_JOB_SECONDS"
"""How long KWOK plays a Job's pod that does not say so itself; unset, 3 s."""
ETCD_SOCKET = "etcd:1"
"""The name of the socket for clients, in the data folder."""


@dataclass(frozen=True)
class Ports:
    """TCP ports of an instance, all on this machine and free when they were chosen."""

    api: int
    karpenter_health: int
    karpenter_metrics: int
    kubelet: int
    """Where the API server gets the output of pods, from the pod runner."""


@dataclass(frozen=True)
class Component:
    """How to start one part."""

    argv: tuple[str, ...]
    settings: Mapping[str, str]
    """Environment variables by which it is configured."""
    inputs: tuple[Path, ...]
    """Files it reads once, when it starts."""

    @property
    def environment(self) -> dict[str, str]:
        """What it gets: its settings and enough to run, nothing of the caller's cloud or cluster settings."""
        kept = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR", "LANG") if key in os.environ}
        return {**kept, **GO_RUNTIME, **self.settings}

    @property
    def fingerprint(self) -> str:
        """Changes with anything that decides how it works; another shell's PATH or language does not."""
        digest = hashlib.sha256(json.dumps([self.argv, sorted(self.settings.items())]).encode())
        for path in self.inputs:
            digest.update(path.read_bytes())
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class InstanceSetting:
    """What the parts of one instance are started with."""

    layout: Layout
    ports: Ports
    programs: Mapping[str, Path]
    """Path of each of `programs()`."""


def _operator() -> str:
    return os.environ.get(OPERATOR_VARIABLE) or "simulated"


def requested() -> tuple[str, ...]:
    """The components of ON_REQUEST that are asked for. Raises LocalError for a value that is none's."""
    values = {name: _ROWS[name]["value"] for name in ON_REQUEST}
    if _operator() not in {"simulated", *values.values()}:
        known = ", ".join(["simulated", *values.values()])
        raise LocalError(f"{OPERATOR_VARIABLE}: {_operator()!r} is unknown; expected one of: {known}")
    return tuple(name for name, value in values.items() if value == _operator())


def programs() -> tuple[str, ...]:
    """Every program that the control plane needs."""
    more = [program for name in requested() for program in _ROWS[name].get("programs", ())]
    return (*PROGRAMS, *more)


def definitions(report: Callable[[str], None] = lambda _: None) -> list[dict[str, Any]]:
    """The custom resources of the control plane. Raises LocalError where they can't be had."""
    listings = [crds.LISTING, *(_FOLDER / _ROWS[name]["crds"] for name in requested())]
    every = [definition for listing in listings for definition in crds.definitions(report, listing)]
    return list({definition["metadata"]["name"]: definition for definition in every}.values())


def fetch(report: Callable[[str], None] = lambda _: None) -> None:
    """Get the files that components read at run time. Raises LocalError where they can't be had."""
    if requested():
        files.fetch(report)


def component(name: str, setting: InstanceSetting) -> Component:
    """How to start component `name`; writes the configuration files it needs."""
    row = _filled(_ROWS[name], _places(name, setting))
    _write_config(name, row, setting)
    arguments = row.get("flags", {})
    inputs = [Path(path) for path in row.get("inputs", ())]
    if name == "kube-apiserver" and (policy := os.environ.get(AUDIT_VARIABLE)):
        arguments |= {
            "audit-policy-file": policy,
            "audit-log-path": str(setting.layout.log("audit")),
            "audit-log-maxsize": "0",  # one file, whatever its size
        }
        inputs.append(Path(policy))
    flags = [f"--{key}={value}" for key, value in arguments.items()]
    if name in PROGRAMS:
        argv = [str(setting.programs[name]), *flags]
        return Component(tuple(argv), row.get("settings", {}), tuple(inputs))
    argv = shipped.command(f"gpupool.local.{row['module']}", *flags)
    sources = [*sorted((_FOLDER / row["module"]).glob("*.py")), _FOLDER / "watch.py"]
    settings = {**shipped.variables(), "PYTHONUNBUFFERED": "1"}
    return Component(tuple(argv), settings, (*sources, *inputs))


def ready_file(layout: Layout, name: str) -> Path:
    """The file that a component of MODULES makes once it has seen what it acts on."""
    return layout.config_of(name, ".ready")


def _places(name: str, setting: InstanceSetting) -> dict[str, Any]:
    """What is filled in for {words} of components.yaml."""
    layout = setting.layout
    certificate, key = layout.kubelet
    paths = {
        "data": layout.data,
        "pki": layout.pki,
        "tokens": layout.tokens,
        "certificate": layout.certificate,
        "service_account_key": layout.service_account_key,
        "kubelet_certificate": certificate,
        "kubelet_key": key,
        "kubeconfig": layout.kubeconfig_of(name),
        "config": _config(name, layout),
        "ready_file": ready_file(layout, name),
        "operator_files": files.folder(),
    }
    ports = {f"{port}_port": str(number) for port, number in asdict(setting.ports).items()}
    more = {"programs": setting.programs, "operator": _operator()}
    words = {"etcd_socket": ETCD_SOCKET, "apis": os.environ.get(APIS_VARIABLE, "ga")}
    return {word: str(path) for word, path in paths.items()} | ports | words | more


def _filled(value: Any, places: Mapping[str, Any]) -> Any:
    if isinstance(value, Mapping):
        return {key: _filled(inner, places) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, places) for inner in value]
    return value.format_map(places) if isinstance(value, str) else value


def _config(name: str, layout: Layout) -> Path:
    return layout.config_of(name, ".config.yaml")


def _write_config(name: str, row: Mapping[str, Any], setting: InstanceSetting) -> None:
    if name == "kwok":
        text = (_FOLDER / "kwok.yaml").read_text(encoding="utf-8")
        # Not by its option --node-port, with which KWOK would serve on that port itself, on every address.
        text = text.replace("POD_RUNNER_PORT", str(setting.ports.kubelet))
        text = text.replace("JOB_SECONDS", os.environ.get(JOB_SECONDS_VARIABLE, "3"))
    elif name == "karpenter":
        text = json.dumps(karpenter_instance_types(), indent=1)
    elif "config" in row:
        text = json.dumps(row["config"], indent=2)
    else:
        return
    path = _config(name, setting.layout)
    if not path.exists() or path.read_text() != text:
        write_private(path, text)
