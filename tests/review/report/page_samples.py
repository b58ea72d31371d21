"""Reports for the tests of the HTML page: the golden pull requests, and one that has all a page may show.

What only a cluster shows, and words that mean harm, are put into a finished report.
"""

from __future__ import annotations

import dataclasses
import functools

from gpupool.environment.plan.changes.model import SettingChange
from gpupool.findings import Category, Finding
from gpupool.review.report.model import (
    FindingChanges,
    LiveState,
    PodAtRisk,
    Report,
    TenantUse,
    WaiverNote,
    risk,
)
from tests.golden.test_reports import CASES, TODAY, report

EVERYTHING = "everything"
SAMPLES = (*CASES, EVERYTHING)


@functools.cache
def report_of(name: str) -> Report:
    """The report of one of `SAMPLES`; made once in a run."""
    return _everything(report("layout-changed")) if name == EVERYTHING else report(name)


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


def _everything(made: Report) -> Report:
    """`made` with all that a page may have to show in its first changed environment, in hostile words."""
    script, image, link, style, template, hidden, long, entity = HOSTILE
    first = made.changed[0]
    pod = PodAtRisk(
        namespace=long[:63], name=script, tenant=None, node="ip-10-0-0-1.ec2.internal", age_seconds=777_600,
        restart_policy="Never", owner=None, requests="8 gpu", protected=True,
    )  # fmt: skip
    finding = Finding(
        code="pin-images",
        category=Category.deny,
        object=f"Deployment {script}",
        path="spec.template",
        what=image,
        remediation=link,
    )
    waiver = WaiverNote("gpu-pods-name-a-pool", None, script, template, TODAY, 0, "unchanged")
    effects = {
        id(effect): dataclasses.replace(
            effect, pods_at_risk=(pod, pod), reason=f"{effect.reason} {script} {long}"
        )
        for effect in first.effects
    }
    risks = [dataclasses.replace(one, effect=effects.get(id(one.effect))) for one in first.risks]
    full = dataclasses.replace(
        first,
        effects=tuple(effects.values()),
        settings=(SettingChange(link, script, None), SettingChange("a.b", None, f"{style} {hidden}")),
        findings=FindingChanges((finding,), (finding,), 3),
        waivers=(waiver, dataclasses.replace(waiver, days_left=-2), dataclasses.replace(waiver, days_left=9)),
        risks=(*risks, risk("policy", f"{script} {entity}", "danger"), risk("x", long)),
        live=LiveState("ml-prod", (), (TenantUse(script, "team", "nvidia.com/gpu", 12, 4),)),
        notes=(image, long),
    )
    unchanged = dataclasses.replace(
        report("comments-only").environments[0], name="quiet", findings=FindingChanges((), (), 0)
    )
    return dataclasses.replace(
        made,
        base=dataclasses.replace(made.base, name=f"{script}{hidden}"),
        environments=(full, unchanged),
        together=FindingChanges((finding,), (), 0),
        notes=(script,),
    )
