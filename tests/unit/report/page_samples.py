"""Reports for the tests of the HTML page: a repository as pull requests change it, and one with it all.

The repository is a real one, read and compared as `gpupool report` does. What only a cluster shows, and words
that mean harm, are put into a finished report.
"""

from __future__ import annotations

import dataclasses
import functools
import subprocess
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

from report.build import build
from report.git_states import snapshots
from report.model import (
    EnvironmentReport,
    FieldChange,
    FindingChanges,
    LiveState,
    PodAtRisk,
    PolicyNote,
    Report,
    Risk,
    TenantUse,
    WaiverNote,
)

TODAY = date(2026, 11, 21)

PROD = """\
apiVersion: gpupool.dev/v1alpha1
kind: Environment
metadata: {name: prod}
cluster: {platform: eks, name: ml-prod, region: us-east-1}
karpenter: {nodeRole: KarpenterNodeRole-ml-prod}
pools:
  - name: research-a100
    gpu: a100-80gb
    sharing: {mode: time-slicing, replicas: 3}
    nodes: {instanceTypes: [p4de.24xlarge], max: 4, spotShare: 0.75}
    maintenance: {window: "Sat 02:00-06:00 UTC"}
  - name: inference-h100
    gpu: h100-80gb
    sharing: {mode: mig, layout: {3g.40gb: 1, 2g.20gb: 2}}
    nodes: {instanceTypes: [p5.48xlarge], max: 2, warm: 1}
  - name: training-h100
    gpu: h100-80gb
    nodes: {instanceTypes: [p5.48xlarge], max: 8}
priorities:
  - {name: training, value: 500, level: high}
  - {name: research, value: 100, level: low, preemptible: true}
tenants:
  - name: vision
    namespace: team-vision
    maxPriority: training
    pools:
      research-a100: {gpus: 6}
      inference-h100: {profiles: {3g.40gb: 4}}
    budget: {usd: 120000}
  - name: language
    namespace: team-language
    maxPriority: training
    pools:
      training-h100: {gpus: 40}
"""

LAB = """\
apiVersion: gpupool.dev/v1alpha1
kind: Environment
metadata: {name: lab}
cluster: {platform: static, name: lab}
pools:
  - name: desk
    gpu: rtx-4070-ti-super
    sharing: {mode: time-slicing, replicas: 4}
    nodes: {names: [k3s-gpu-0]}
priorities:
  - {name: any, value: 100, level: high}
tenants:
  - name: family
    namespace: family
    maxPriority: any
    pools:
      desk: {slices: 2}
"""

BASE = {"prod": PROD, "lab": LAB}

_LAYOUT = ("layout: {3g.40gb: 1, 2g.20gb: 2}", "layout: {1g.10gb: 5, 2g.20gb: 1}")
_TENANT = ("inference-h100: {profiles: {3g.40gb: 4}}", "inference-h100: {profiles: {1g.10gb: 4}}")

PULL_REQUESTS: Mapping[str, Mapping[str, tuple[tuple[str, str], ...] | str | None]] = {
    "another-layout": {"prod": (_LAYOUT, _TENANT)},
    "more-replicas": {"prod": (("replicas: 3", "replicas: 4"),), "lab": (("replicas: 4", "replicas: 2"),)},
    "another-mode": {"prod": (("mode: time-slicing, replicas: 3", "mode: mps, replicas: 24"),)},
    "a-pool-renamed": {"prod": (("training-h100", "pretraining-h100"),)},
    "more-nodes": {"prod": (("max: 8", "max: 24"), ("gpus: 40", "gpus: 120"))},
    "an-environment-added": {"edge": LAB.replace("lab", "edge")},
    "an-environment-removed": {"lab": None},
    "a-file-that-is-refused": {"prod": (("3g.40gb: 1, 2g.20gb: 2", "3g.40gb: 3"),), "lab": None},
    "nothing": {},
}
"""Name -> environment -> what is replaced in its file, its whole new text, or None where it goes."""

SAMPLES = (*PULL_REQUESTS, "everything")


@functools.cache
def report_of(name: str) -> Report:
    """The report of one of `PULL_REQUESTS`, or of `everything`; made once in a run."""
    if name == "everything":
        return _everything(report_of("another-layout"))
    with TemporaryDirectory() as folder:
        return _compared(name, Path(folder))


def _compared(name: str, folder: Path) -> Report:
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    files = folder / "environments"
    files.mkdir()
    for each, text in BASE.items():
        (files / f"{each}.yaml").write_text(text, encoding="utf-8")
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "base"]):
        subprocess.run([*git, *command], check=True)
    for each, change in PULL_REQUESTS[name].items():
        path = files / f"{each}.yaml"
        if change is None:
            path.unlink()
        elif isinstance(change, str):
            path.write_text(change, encoding="utf-8")
        else:
            text = path.read_text(encoding="utf-8")
            for old, new in change:
                assert old in text
                text = text.replace(old, new)
            path.write_text(text, encoding="utf-8")
    with snapshots(files, "main", None) as (before, after):
        return build(before, after, [], TODAY, 20.0)


HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    'javascript:alert(1)" onmouseover="alert(1)',
    "</style><script>alert(1)</script>",
    "{{ 7*7 }}{% raw %}",
    "prod\u202egpj.exe\u200b",
    "a" * 300,
    "&lt;b&gt;&amp;",
)
"""Names and sentences as somebody could write them who means harm, or just long ones."""


def _everything(report: Report) -> Report:
    """`report` with all that a page may have to show in its first changed environment, in hostile words."""
    script, image, link, style, template, hidden, long, entity = HOSTILE
    first = report.changed[0]
    pod = PodAtRisk(
        namespace=long[:63], name=script, tenant=None, node="ip-10-0-0-1.ec2.internal", age_seconds=777_600,
        restart_policy="Never", owner=None, requests="8 gpu", protected=True,
    )  # fmt: skip
    finding = PolicyNote("deny", "pin-images", f"Deployment {script}", "spec.template", image, link)
    waiver = WaiverNote("gpu-pods-name-a-pool", None, script, template, TODAY, 0, "unchanged")
    full = dataclasses.replace(
        first,
        effects=tuple(
            dataclasses.replace(effect, pods_at_risk=(pod, pod), reason=f"{effect.reason} {script} {long}")
            for effect in first.effects
        ),
        settings=(FieldChange(link, script, None), FieldChange("a.b", None, f"{style} {hidden}")),
        findings=FindingChanges((finding,), (finding,), 3),
        waivers=(waiver, dataclasses.replace(waiver, days_left=-2), dataclasses.replace(waiver, days_left=9)),
        risks=(*first.risks, Risk("danger", "policy", f"{script} {entity}"), Risk("caution", "x", long)),
        live=LiveState("ml-prod", (), (TenantUse(script, "team", "nvidia.com/gpu", 12, 4),)),
        notes=(image, long),
    )
    return dataclasses.replace(
        _with(report, full),
        base=dataclasses.replace(report.base, name=f"{script}{hidden}"),
        together=FindingChanges((finding,), (), 0),
        notes=(script,),
    )


def _with(report: Report, environment: EnvironmentReport) -> Report:
    others = (one for one in report.environments if one.name != environment.name)
    return dataclasses.replace(report, environments=(environment, *others))
