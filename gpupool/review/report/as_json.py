"""The report as JSON: what machines read, with keys that are a contract."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BeforeValidator

from gpupool.findings.json_output import JsonObject, Number, OrNull, read
from gpupool.review.report.model import Report

T = TypeVar("T")
SCHEMA = 2
"""Raised by a release that renames or removes a key."""


class _BeforeAfter(JsonObject, Generic[T]):
    before: T
    after: T


class _Cost(JsonObject):
    min: Number = read("floor")
    max: Number = read("ceiling")


_Figures = Annotated[dict[str, Any], BeforeValidator(lambda figures: figures.model_dump(mode="json"))]
"""As `simulate --format json` has them."""


class _Setting(JsonObject):
    name: str
    before: str | None
    after: str | None


class _PoolState(JsonObject):
    name: str
    gpu: str
    mode: str
    sharing: str
    layout: dict[str, int]
    instance_types: list[str]
    nodes_max: int
    warm: int
    gpus_per_node: int
    gpus_max: int
    slices_per_node: dict[str, int]
    slices_max: dict[str, int]
    monthly_usd: _Cost | None = read("cost")


class _Pool(JsonObject):
    name: str
    change: str
    renamed_from: str | None
    before: _PoolState | None
    after: _PoolState | None
    fields: list[_Setting]


class _Resource(JsonObject):
    resource: str
    before: int
    after: int


class _Tenant(JsonObject):
    name: str
    namespace: str
    change: str
    renamed_from: str | None
    quota: list[_Resource]
    budget: _BeforeAfter[str | None]
    fields: list[_Setting]


class _Pod(JsonObject):
    namespace: str
    name: str
    tenant: str | None
    node: str
    age_seconds: int
    restart_policy: str
    owner: str | None
    requests: str
    protected: bool


class _Effect(JsonObject):
    kind: str
    pool: OrNull[str]
    node_pool: str | None
    reason: str
    what: str
    certain: bool
    disruptive: bool
    pods: str
    nodes_max: int | None
    at_once: int | None
    window: str | None
    nodes: list[str]
    nodes_now: int | None
    pods_at_risk: list[_Pod]


class _Risk(JsonObject):
    severity: str = read("severity.name")
    category: str
    code: str
    message: str = read("what")


class _Note(JsonObject):
    severity: str = read("severity.name")
    category: str
    code: str
    object: OrNull[str]
    file: str
    line: int
    column: int
    path: str
    message: str = read("what")
    remediation: str


class _Findings(JsonObject):
    new: list[_Note]
    fixed: list[_Note]
    remaining: int


class _Waiver(JsonObject):
    policy: str
    namespace: str | None
    owner: str
    reason: str
    until: date
    days_left: int
    change: str


class _PoolNodes(JsonObject):
    pool: str
    count: int = read("nodes")


class _Use(JsonObject):
    tenant: str
    namespace: str
    resource: str
    used: int
    quota: int


class _Live(JsonObject):
    cluster: str
    nodes: list[_PoolNodes]
    over_quota: list[_Use]


class _Environment(JsonObject):
    name: str
    file: str
    change: str
    edited: bool
    platform: _BeforeAfter[str | None]
    invalid: _BeforeAfter[list[_Note]]
    risks: list[_Risk]
    nodes_max: _BeforeAfter[int] = read("nodes")
    gpus_max: _BeforeAfter[int] = read("gpus")
    slices_max: list[_Resource] = read("resources")
    monthly_usd: _BeforeAfter[_Cost | None] = read("cost")
    effects: list[_Effect]
    pools: list[_Pool]
    tenants: list[_Tenant]
    settings: list[_Setting]
    findings: _Findings
    waivers: list[_Waiver]
    live: _Live | None
    notes: list[str]
    simulated: _BeforeAfter[_Figures] | None


class _State(JsonObject):
    name: str
    commit: str | None
    dirty: bool


class _Report(JsonObject):
    base: _State
    head: _State
    today: date
    cost_threshold: Number
    valid: bool
    dangers: int
    cautions: int
    environments: list[_Environment]
    together: _Findings
    notes: list[str]


def as_json(report: Report) -> dict[str, Any]:
    """Everything that the report says, as values that JSON has."""
    return {"schema": SCHEMA, **_Report.of(report)}
