"""The parts of the control plane: how each is started, in which order, and when it counts as ready.

This is the one place with their flags. It starts nothing itself (see `control_plane`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpupool import shipped
from gpupool.cluster.local_layout import Layout
from gpupool.local.credentials import write_private
from gpupool.local.instance_types import karpenter_instance_types

CORE = ("etcd", "kube-apiserver")
"""When one of these is down, the others can't work reliably, so a repair restarts everything."""
AFTER_CORE = ("kube-controller-manager", "kube-scheduler", "kwok", "pod-runner")
AFTER_CRDS = ("karpenter", "gpu-operator")
"""These discover their custom resources once, when they start."""
NAMES = (*CORE, *AFTER_CORE, *AFTER_CRDS)
"""Every component in the order of its start; the reverse is the order of the stop."""
MODULES = ("gpu-operator", "pod-runner")
"""Components that run in this Python; they make a file once they are ready."""
PROGRAMS = tuple(name for name in NAMES if name not in MODULES)
"""Those that are programs of binaries.yaml."""
GO_RUNTIME = {"GOGC": "400"}
"""Memory for time: at Go's default of 100 a quarter of the API server's processor time collects garbage when
thousands of objects come and go."""
APIS_VARIABLE = "GPUPOOL_LOCAL_APIS"
"""`all` serves alpha and beta versions too; unset, the API server has those that a cluster has by default."""
AUDIT_VARIABLE = "GPUPOOL_LOCAL_AUDIT"
"""Path of an audit policy by which the API server writes logs/audit.log; unset, it writes none."""
JOB_SECONDS_VARIABLE = "GPUPOOL_LOCAL_JOB_SECONDS"
"""How long KWOK plays a Job's pod that does not say so itself; unset, 3 s."""
USERS = ("admin", *AFTER_CORE, *AFTER_CRDS)

# Unix sockets in the data folder: no port, and only the owner can access the store. etcd
# wants a host and a port in every URL and calls the socket's file by both.
ETCD_SOCKET = "etcd:1"
"""The name of the socket for clients, in the data folder."""
_ETCD_CLIENTS = f"unix://{ETCD_SOCKET}"
_ETCD_PEERS = "unix://etcd:2"


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

    name: str
    argv: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    """Environment variables by which it is configured."""
    inputs: tuple[Path, ...] = ()
    """Files it reads once, when it starts."""
    grace: float = 3.0
    """Seconds it gets to end by itself."""

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
class Setting:
    """What the parts of one instance are started with."""

    layout: Layout
    ports: Ports
    programs: Mapping[str, Path]
    """Path of each of PROGRAMS."""


def component(name: str, setting: Setting) -> Component:
    """How to start component `name`; writes the configuration files it needs."""
    return _BUILDERS[name](setting)


def _etcd(setting: Setting) -> Component:
    layout = setting.layout
    arguments = {
        "name": "local",
        "data-dir": str(layout.data / "etcd"),
        "listen-client-urls": _ETCD_CLIENTS,
        "advertise-client-urls": _ETCD_CLIENTS,
        "listen-peer-urls": _ETCD_PEERS,
        "initial-advertise-peer-urls": _ETCD_PEERS,
        "initial-cluster": f"local={_ETCD_PEERS}",
        # The data need not survive a power cut, only a killed process, and syncing is most of the cost.
        "unsafe-no-fsync": "true",
        "log-level": "warn",
    }
    return Component("etcd", (str(setting.programs["etcd"]), *_flags(arguments)))


def _apiserver(setting: Setting) -> Component:
    layout = setting.layout
    certificate, key = layout.kubelet
    arguments = {
        "etcd-servers": _ETCD_CLIENTS,
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        "secure-port": str(setting.ports.api),
        "cert-dir": str(layout.pki),
        "token-auth-file": str(layout.tokens),
        "anonymous-auth": "false",
        "authorization-mode": "Node,RBAC",
        # Defaults plus these; ResourceQuota, LimitRanger, PodSecurity and the CEL policies are defaults.
        "enable-admission-plugins": "ResourceQuota,LimitRanger,PodSecurity,Priority",
        "service-account-key-file": str(layout.service_account_key),
        "service-account-signing-key-file": str(layout.service_account_key),
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-cluster-ip-range": "10.96.0.0/16",
        "runtime-config": f"api/{os.environ.get(APIS_VARIABLE, 'ga')}=true",
        "allow-privileged": "true",
        "endpoint-reconciler-type": "none",
        "enable-priority-and-fairness": "false",
        "max-requests-inflight": "2000",
        "max-mutating-requests-inflight": "1000",
        "profiling": "false",
        "kubelet-preferred-address-types": "InternalIP",
        "kubelet-certificate-authority": str(certificate),
        "kubelet-client-certificate": str(certificate),
        "kubelet-client-key": str(key),
    }
    inputs = [layout.tokens, certificate]
    if policy := os.environ.get(AUDIT_VARIABLE):
        arguments |= {
            "audit-policy-file": policy,
            "audit-log-path": str(layout.log("audit")),
            "audit-log-maxsize": "0",  # one file, whatever its size
        }
        inputs.append(Path(policy))
    argv = (str(setting.programs["kube-apiserver"]), *_flags(arguments))
    return Component("kube-apiserver", argv, inputs=tuple(inputs), grace=2.0)


def _controller_manager(setting: Setting) -> Component:
    layout = setting.layout
    arguments = {
        "kubeconfig": str(layout.kubeconfig_of("kube-controller-manager")),
        "leader-elect": "false",
        "secure-port": "0",
        "service-account-private-key-file": str(layout.service_account_key),
        "root-ca-file": str(layout.certificate),
        "kube-api-qps": "1000",
        "kube-api-burst": "2000",
        "concurrent-job-syncs": "20",
        "concurrent-resource-quota-syncs": "20",
        "concurrent-gc-syncs": "20",
        "concurrent-namespace-syncs": "40",
        # A namespace's quota is recounted this often besides on every change.
        "resource-quota-sync-period": "30s",
    }
    argv = (str(setting.programs["kube-controller-manager"]), *_flags(arguments))
    inputs = (layout.kubeconfig_of("kube-controller-manager"),)
    return Component("kube-controller-manager", argv, inputs=inputs)


def _scheduler(setting: Setting) -> Component:
    layout = setting.layout
    config = layout.config_of("kube-scheduler", ".json")
    settings = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {
            "kubeconfig": str(layout.kubeconfig_of("kube-scheduler")),
            "qps": 1000,
            "burst": 2000,
        },
        # A pod that waits for a node is tried again within 2 s instead of 10.
        "podMaxBackoffSeconds": 2,
    }
    _write_if_changed(config, json.dumps(settings, indent=2))
    argv = (str(setting.programs["kube-scheduler"]), *_flags({"config": str(config), "secure-port": "0"}))
    inputs = (config, layout.kubeconfig_of("kube-scheduler"))
    return Component("kube-scheduler", argv, inputs=inputs)


def _kwok(setting: Setting) -> Component:
    layout = setting.layout
    stages = layout.config_of("kwok", ".yaml")
    text = (Path(__file__).parent / "kwok.yaml").read_text(encoding="utf-8")
    # Not by its option --node-port, with which KWOK would serve on that port itself, on every address.
    text = text.replace("POD_RUNNER_PORT", str(setting.ports.kubelet))
    text = text.replace("JOB_SECONDS", os.environ.get(JOB_SECONDS_VARIABLE, "3"))
    _write_if_changed(stages, text)
    arguments = {
        "kubeconfig": str(layout.kubeconfig_of("kwok")),
        "config": str(stages),
        "manage-all-nodes": "true",
        # Where the API server looks for the kubelet of every node, and finds the pod runner.
        "node-ip": "127.0.0.1",
    }
    settings = {"KWOK_WORKDIR": str(layout.data / "kwok")}
    argv = (str(setting.programs["kwok"]), *_flags(arguments))
    return Component("kwok", argv, settings, (stages, layout.kubeconfig_of("kwok")))


def _karpenter(setting: Setting) -> Component:
    layout = setting.layout
    machines = layout.config_of("karpenter", "-instance-types.json")
    _write_if_changed(machines, json.dumps(karpenter_instance_types(), indent=1))
    settings = {
        "KUBECONFIG": str(layout.kubeconfig_of("karpenter")),
        "DISABLE_LEADER_ELECTION": "true",
        "FEATURE_GATES": "NodeOverlay=true",
        # It looks at all overlays, for each NodePool, whenever one of them changes.
        "GOMAXPROCS": "1",
        "INSTANCE_TYPES_FILE_PATH": str(machines),
        "METRICS_PORT": str(setting.ports.karpenter_metrics),
        "HEALTH_PROBE_PORT": str(setting.ports.karpenter_health),
        # How long to gather pods before computing nodes; 1 s and 10 s by default.
        "BATCH_IDLE_DURATION": "500ms",
        "BATCH_MAX_DURATION": "3s",
        "KUBE_CLIENT_QPS": "500",
        "KUBE_CLIENT_BURST": "1000",
        "SYSTEM_NAMESPACE": "kube-system",
    }
    inputs = (machines, layout.kubeconfig_of("karpenter"))
    # The program takes all it needs from the environment; the data folder is there to be seen by `ps`.
    return Component("karpenter", (str(setting.programs["karpenter"]),), settings, inputs)


def _operator(setting: Setting) -> Component:
    return _module("gpu-operator", "operator", setting.layout, {})


def _pod_runner(setting: Setting) -> Component:
    layout = setting.layout
    certificate, key = layout.kubelet
    arguments = {
        "data": str(layout.data),
        "port": str(setting.ports.kubelet),
        "certificate": str(certificate),
        "key": str(key),
    }
    return _module("pod-runner", "pods", layout, arguments, (certificate,))


def _module(
    name: str, package: str, layout: Layout, arguments: Mapping[str, str], inputs: tuple[Path, ...] = ()
) -> Component:
    """A component that is a package of this folder."""
    kubeconfig = layout.kubeconfig_of(name)
    arguments = {"kubeconfig": str(kubeconfig), "ready-file": str(ready_file(layout, name)), **arguments}
    argv = tuple(shipped.command(f"gpupool.local.{package}", *_flags(arguments)))
    folder = Path(__file__).parent
    sources = sorted((folder / package).glob("*.py"))
    settings = {**shipped.variables(), "PYTHONUNBUFFERED": "1"}
    return Component(name, argv, settings, (*sources, folder / "watch.py", kubeconfig, *inputs))


def ready_file(layout: Layout, name: str) -> Path:
    """The file that a component of MODULES makes once it has seen what it acts on."""
    return layout.config_of(name, ".ready")


def _flags(arguments: Mapping[str, str]) -> Iterable[str]:
    return (f"--{key}={value}" for key, value in arguments.items())


def _write_if_changed(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        write_private(path, text)


_BUILDERS: dict[str, Callable[[Setting], Component]] = {
    "etcd": _etcd,
    "kube-apiserver": _apiserver,
    "kube-controller-manager": _controller_manager,
    "kube-scheduler": _scheduler,
    "kwok": _kwok,
    "pod-runner": _pod_runner,
    "karpenter": _karpenter,
    "gpu-operator": _operator,
}
