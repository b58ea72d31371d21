"""The queue's section of the file -> the Plan's settings."""

from __future__ import annotations

import json

from gpupool import __version__
from gpupool.environment.plan.plan_json import plan_json
from gpupool.environment.plan.queue import Chart, QueueSettings, SecretKey, Smtp
from gpupool.environment.spec.tenants import Budget, Project
from tests.environment_files import Data, environment_data, plan_of

BASE: Data = environment_data("local")


def test_defaults_are_the_same_on_both_sides() -> None:
    assert plan_of(BASE).queue == QueueSettings()


def test_every_field_reaches_the_plan() -> None:
    queue = {
        "enabled": False,
        "engine": "builtin",
        "ordering": "fifo",
        "aging": "1h",
        "reserveAfter": "2m",
        "retries": 0,
        "defaultTimeout": "1h30m",
        "eventPrefix": "gpu.jobs",
        "targets": ["https://models.example.com", "http://[::1]:8000"],
        "database": {"secretRef": {"name": "db", "key": "url"}},
        "nats": {"url": "nats://nats:4222"},
        "auth": {"issuer": "https://id.example.com", "audience": "gpupool"},
        "trustedProxies": ["10.0.0.0/8", "2001:db8::/32"],
        "chart": {
            "repository": "oci://registry.example.com/charts",
            "image": "registry.example.com/gpupool:1.2.3",
            "values": {"api": {"replicas": 3}},
        },
        "idle": {
            "prometheus": "https://prometheus.example.com/select/0",
            "below": 0.1,
            "for": "1h",
            "action": "stop",
        },
        "logs": {"keepMiB": 1, "keepFor": "1d12h"},
        "alerts": {
            "webhookSecretRef": {"name": "hook", "key": "url"},
            "smtp": {
                "host": "smtp.example.com",
                "from": "gpu@example.com",
                "to": ["ml@example.com"],
                "secretRef": {"name": "smtp", "key": "password"},
            },
        },
    }
    assert plan_of({**BASE, "queue": queue}).queue == QueueSettings(
        enabled=False,
        engine="builtin",
        ordering="fifo",
        aging_s=3600,
        reserve_after_s=120,
        retries=0,
        default_timeout_s=5400,
        event_prefix="gpu.jobs",
        targets=("https://models.example.com", "http://[::1]:8000"),
        database=SecretKey("db", "url"),
        nats_url="nats://nats:4222",
        auth_issuer="https://id.example.com",
        auth_audience="gpupool",
        trusted_proxies=("10.0.0.0/8", "2001:db8::/32"),
        idle_below=0.1,
        idle_for_s=3600,
        idle_action="stop",
        idle_prometheus="https://prometheus.example.com/select/0",
        logs_keep_mib=1,
        logs_keep_for_s=36 * 3600,
        webhook=SecretKey("hook", "url"),
        smtp=Smtp(
            "smtp.example.com",
            587,
            "gpu@example.com",
            ("ml@example.com",),
            "gpu@example.com",
            SecretKey("smtp", "password"),
        ),
        chart=Chart(
            "oci://registry.example.com/charts",
            __version__,
            "registry.example.com/gpupool:1.2.3",
            {"api": {"replicas": 3}},
        ),
    )


def test_a_short_deadline_of_the_policies_is_the_default_timeout_too() -> None:
    settings = plan_of({**BASE, "policies": {"limits": {"jobDeadline": "3h"}}}).queue
    assert (settings.default_timeout_s, settings.longest_timeout_s) == (3 * 3600, 3 * 3600)


def test_projects_are_names_or_have_ids_and_budgets() -> None:
    uuid = "11111111-1111-1111-1111-111111111111"
    budget = {"usd": 5, "period": "week", "overrunBy": 0.1}
    projects = ["a", {"name": "b", "id": uuid, "budget": budget}]
    plan = plan_of({**BASE, "tenants": [{"name": "t", "id": uuid, "namespace": "t", "projects": projects}]})
    (tenant,) = plan.tenants
    assert tenant.id == uuid
    assert tenant.projects == (
        Project(name="a"),
        Project(name="b", id=uuid, budget=Budget(usd=5, period="week", overrunBy=0.1)),
    )
    assert plan_json(plan)["tenants"][0]["projects"][1] == {"name": "b", "id": uuid, "budgetUsd": 5}


def test_settings_are_json_in_camel_case() -> None:
    found = QueueSettings().as_dict()
    json.dumps(found)
    assert found["agingSeconds"] == 1800
    assert found["natsUrl"] is None
    assert found["logsKeepForSeconds"] == 7 * 86400
