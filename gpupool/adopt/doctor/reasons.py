"""Every reason that a check can give: its state, whether `up` fails by it, and the sentences for people.

The one table of them. A reason's name, in JSON written with dashes, is a contract; its sentences are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, unique
from typing import Any


class CheckState(Enum):
    OK = "ok"
    MISSING = "missing"
    DIFFERS = "differs"
    UNKNOWN = "unknown"
    """It can't be known from here."""
    WILL_BE_INSTALLED = "will-be-installed"
    """`up` brings it."""


_OK, _MISSING, _DIFFERS, _UNKNOWN, _COMES = CheckState


@unique
class Reason(Enum):
    """State, whether `up` fails, what is so, and what to do about it."""

    # The file and what follows from it.
    FILE_VALID = (_OK, False, "valid", "")
    FILE_FINDING = (_DIFFERS, True, "{problem}", "{place}: {remediation}")
    NOT_CHECKED_FILE = (_UNKNOWN, False, "not checked: the file is not valid", "")
    NOT_CHECKED_CLUSTER = (_UNKNOWN, False, "not checked: the cluster is not usable", "")
    NOT_BY_UP = (_OK, False, "not needed here: {engine} applies this environment", "")
    FORBIDDEN = (
        _UNKNOWN,
        False,
        "could not be checked: this account can't read it",
        "{problem}",
    )
    FAILED = (_UNKNOWN, False, "could not be checked", "{problem}")
    BROKEN = (
        _UNKNOWN,
        False,
        "could not be checked: an error in gpupool",
        "report it with this information: {kind}, {place}",
    )

    # This machine.
    PROJECT_FOUND = (_OK, False, "{folder}", "")
    PROJECT_MISSING = (_MISSING, True, "not a gpupool project", "{problem}")
    ENGINE_FOUND = (_OK, False, "{version} ({pinned} is pinned), {path}", "")
    ENGINE_DOWNLOADED = (_COMES, False, "`up` downloads {pinned}{passed_over}", "")
    ENGINE_BUILT = (
        _COMES,
        False,
        "`up` builds {pinned} with {go}, once, about {minutes} min on two cores{passed_over}",
        "",
    )
    ENGINE_MISSING = (_MISSING, True, "missing and not available{passed_over}", "{problem}")
    PLUGIN_FOUND = (_OK, False, "{version}, {path}", "")
    PLUGIN_ON_PATH = (_OK, False, "{path} on PATH; its version is not known ({pinned} is pinned)", "")
    PLUGIN_OTHER = (
        _DIFFERS,
        False,
        "{version} is installed but {pinned} is pinned: Pulumi downloads it",
        "without access to downloads: run pulumi {install} elsewhere, and copy ~/.pulumi/plugins here",
    )
    PLUGIN_BUILT = (_OK, False, "{version}, built by gpupool ({pinned} is pinned), {path}", "")
    PLUGIN_COMES = (
        _COMES,
        False,
        "with `up`, Pulumi downloads {pinned}; if that fails, `up` builds {built}",
        "",
    )

    # The cluster.
    CONTEXT_FOUND = (_OK, False, "{server}", "")
    CONTEXT_UNUSABLE = (_MISSING, True, "can't be used", "{problem}")
    SERVER_SILENT = (_MISSING, True, "no answer", "{problem}")
    CREDENTIALS_REFUSED = (
        _DIFFERS,
        True,
        "refused: {problem}",
        "sign in again, or use a context with a valid user (kubectl auth whoami)",
    )
    ACCOUNT_KNOWN = (_OK, False, "accepted", "")
    ACCOUNT_UNKNOWN = (_UNKNOWN, False, "accepted; the server does not report the user", "")
    VERSION_SAME = (_OK, False, "{live}", "")
    VERSION_OTHER = (
        _DIFFERS,
        False,
        "the server is {live}, but the file says {file}",
        'write cluster.kubernetesVersion: "{minor}": policies and images depend on it',
    )
    VERSION_UNCLEAR = (_UNKNOWN, False, "the server reports {live}; the file says {file}", "")

    # Rights.
    RIGHTS_ALL = (_OK, False, "everything is allowed", "")
    RIGHTS_ENOUGH = (_OK, False, "`up` has all {count} permissions that it needs", "")
    RIGHTS_MISSING = (_MISSING, True, "may not {verbs} {where}", "grant it {verbs} on {subject} {where}")
    RIGHTS_HELPFUL = (
        _MISSING,
        False,
        "may not {verbs} {where}; `up` works, but can't find objects left over from a lost state",
        "",
    )
    RIGHTS_TO_CHECK = (
        _MISSING,
        False,
        "may not {reads}: `doctor` skips this check",
        "grant it: gpupool doctor {env} --grant",
    )
    RIGHTS_ESCALATION = (
        _MISSING,
        True,
        "may not {verb} it: it lacks permissions of {role}, such as {example}",
        "grant it {verb} on {resource} {role}, or the permissions of {role}",
    )
    RIGHTS_OF_CHARTS = (
        _UNKNOWN,
        False,
        "the permissions for these charts are only known when they are pulled",
        "let a cluster administrator run the first `up`, or compare with: {commands}",
    )

    # Kinds and what acts on them.
    RESERVATIONS_NONE = (_OK, False, "not used here", "")
    RESERVATIONS_NAMED = (
        _UNKNOWN,
        False,
        "{count} named; those that no pool names stay unused, and are paid for in addition to the nodes",
        "compare with: aws ec2 describe-capacity-reservations --region {region}",
    )
    KINDS_SERVED = (_OK, False, "{count} of {used} kinds are served in the required versions", "")
    KIND_COMES = (_COMES, False, "comes with the chart {chart}", "")
    KIND_MISSING = (
        _MISSING,
        True,
        "the cluster does not serve {version}",
        "install {chart}; its chart includes the definition (CRD)",
    )
    KIND_LOCAL_MISSING = (_MISSING, True, "the local control plane does not serve it", "gpupool local up")
    KIND_OTHER_VERSION = (
        _DIFFERS,
        True,
        "the cluster serves it as {served}, but gpupool uses {version}",
        "upgrade {chart} to a version that serves {version}",
    )
    KIND_TOO_OLD = (
        _MISSING,
        True,
        "this Kubernetes does not serve {version}",
        "upgrade the cluster, or enable the API {version} in its API server",
    )
    GATE_ON = (_OK, False, "enabled, in Deployment {where}", "")
    GATE_OFF = (
        _MISSING,
        True,
        "disabled, in Deployment {where}",
        "set {gate}=true in its variable FEATURE_GATES (values of its chart: settings.featureGates)",
    )
    GATE_COMES = (_COMES, False, "enabled by the chart karpenter {version}", "")
    GATE_LOCAL = (_OK, False, "enabled, in the local control plane's Karpenter", "")
    GATES_NONE = (_OK, False, "none is needed", "")
    KARPENTER_UNSEEN = (
        _UNKNOWN,
        False,
        "no Deployment in the cluster has the label app.kubernetes.io/name=karpenter",
        "run Karpenter with {gate}=true in FEATURE_GATES, or write karpenter.install: true",
    )
    OPERATOR_COMES = (_COMES, False, "{version}, by the chart gpu-operator", "")
    OPERATOR_OURS = (_OK, False, "installed by the release {release}", "")
    OPERATOR_TWO = (
        _DIFFERS,
        True,
        "ClusterPolicy {name} exists without a release {release}: the chart would install a second operator",
        "write gpuOperator: {{{fields}}}, or remove that operator",
    )
    OPERATOR_ELSEWHERE = (
        _DIFFERS,
        True,
        "an operator runs in namespace {namespace} ({sign}): the chart would install a second one",
        "write gpuOperator: {{{fields}}}, or remove that operator",
    )
    OPERATOR_FOREIGN = (
        _OK,
        False,
        "ClusterPolicy {name} can use the pools' configurations in namespace {namespace}",
        "",
    )
    OPERATOR_UNFIT = (_DIFFERS, True, "`up` would refuse ClusterPolicy {name}", "{problem}")
    OPERATOR_LACKS = (
        _DIFFERS,
        False,
        "settings of ClusterPolicy {name} conflict with the file",
        "its owner must set these chart values:\n{values}",
    )
    OPERATOR_CLOUD = (_OK, False, "not needed here: the cloud's node pools share GPUs", "")
    OPERATOR_LOCAL = (_OK, False, "simulated by the local control plane", "")
    PROMETHEUS_FOUND = (_OK, False, "{version} {kind} is served", "")
    PROMETHEUS_MISSING = (
        _MISSING,
        True,
        "the cluster does not serve {version} {kind}",
        "install the Prometheus operator, or disable {field}",
    )
    PROMETHEUS_UNUSED = (_OK, False, "the file asks for no ServiceMonitor", "")

    # What is in the cluster already.
    TENANTS_NONE = (_OK, False, "the file has none", "")
    TENANTS_NARROW = (_OK, False, "no tenant has more permissions than {role}", "")
    TENANT_BROAD = (
        _DIFFERS,
        False,
        "{who} may {examples}{more}, by {kind} {role} of {binding}, which bypasses quotas and policies",
        "if that is the tenant, bind only {narrow} (tenants[].access): {command}",
    )
    WORKLOADS_FINE = (_OK, False, "the policies allow all {count} running workloads to restart", "")
    WORKLOADS_REFUSED = (
        _DIFFERS,
        False,
        "policies would refuse {refused} of {count} running workloads at their next restart: {first}",
        "adapt them, weaken the policy (policies.overrides) or waive it (policies.waivers) before `up`",
    )
    IMAGES_NONE = (_OK, False, "no machine image is configured", "")
    IMAGES_PINNED = (_OK, False, "none of {count} EC2NodeClasses uses the newest image automatically", "")
    IMAGE_LATEST = (
        _DIFFERS,
        False,
        "its image is {alias}: each new release replaces its nodes and ends their workloads",
        "pin the release with karpenter.amiAlias: {pinned}, and change it deliberately",
    )
    CLAIMS_NONE = (_OK, False, "nothing else allocates GPUs of {count} nodes", "")
    CLAIMS_DRIVER = (
        _DIFFERS,
        False,
        "a DRA driver publishes {devices} devices on {nodes}: no quota counts pods that claim them",
        "remove the driver from these nodes, or these nodes from the pools",
    )
    CLAIMS_RESOURCE = (
        _DIFFERS,
        False,
        "a device plugin offers {devices} of it on {nodes}: no quota counts pods that request it",
        "remove the plugin from these nodes, or these nodes from the pools",
    )

    # What is pulled.
    CHARTS_NONE = (_OK, False, "none is installed", "")
    CHART_FOUND = (_OK, False, "{version} can be pulled from {repository}", "")
    CHART_UNPULLED = (
        _MISSING,
        True,
        "{version} can't be pulled from {repository}",
        "find the cause: {command}",
    )
    CHART_UNTRIED = (
        _UNKNOWN,
        False,
        "not tried: {version} of {repository}; helm is not installed on this machine",
        "on a machine with helm: {command}",
    )
    QUEUE_OFF = (_OK, False, "disabled", "")
    QUEUE_SERVED = (_OK, False, "not installed in the cluster; run it with: gpupool serve {env}", "")
    IMAGE_RUNS = (_OK, False, "{image} runs in the cluster", "")
    IMAGE_UNPULLED = (
        _UNKNOWN,
        False,
        "{image}: only a node can check whether it can pull it",
        "on a node: crictl pull {image}",
    )

    # What the file refers to.
    NODES_FIT = (_OK, False, "{count} nodes can be part of their pools", "")
    NODES_NONE = (_OK, False, "no pool uses existing nodes", "")
    NODE_UNFIT = (_MISSING, True, "can't be part of its pool", "{problem}")
    SECRETS_NONE = (_OK, False, "the file names none", "")
    SECRET_FOUND = (_OK, False, "Secret {secret} has the key {key}", "")
    SECRET_THERE = (_OK, False, "Secret {secret} exists", "")
    SECRET_NOT_NEEDED = (_OK, False, "Secret {secret} is for the queue's chart, which is not installed", "")
    SECRET_LATER = (
        _MISSING,
        False,
        "namespace {namespace} of Secret {secret} does not exist yet; `up` creates it",
        "while `up` waits for it: {command}",
    )
    SECRET_MISSING = (_MISSING, True, "there is no Secret {secret}", "{command}")
    SECRET_NO_KEY = (
        _MISSING,
        True,
        "Secret {secret} has no key {key}; it has {keys}",
        "add the key, or name another in the file",
    )
    JOB_SECRET_MISSING = (
        _MISSING,
        False,
        "Secret {secret} does not exist: jobs that use it don't start",
        "{command}",
    )

    @property
    def state(self) -> CheckState:
        return self.value[0]

    @property
    def blocks(self) -> bool:
        return self.value[1]

    @property
    def key(self) -> str:
        """Its name in JSON."""
        return self.name.lower().replace("_", "-")

    def message(self, values: Mapping[str, Any]) -> str:
        """What is so, on one line."""
        return self.value[2].format_map(values)

    def remediation(self, values: Mapping[str, Any]) -> str:
        """What to do; empty where there is nothing to do."""
        return self.value[3].format_map(values)
