"""A real Prometheus that has scraped, and evaluated the rules, for as long as a history lasts.

It goes on from there without scraping: what it knows is fresh for five minutes, and alerts fire.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from gpupool.environment.plan.model import Plan
from gpupool.generators.monitoring import rules
from tests.prometheus import Prometheus, promtool

_FIRING_S = 180.0
"""Alerts fire after a minute of waiting, and of reading what was recorded."""


def past(folder: Path, plan: Plan, samples: str, begin: int, end: int, step: int) -> Prometheus:
    """Of samples and the plan's rules, every `step` seconds from `begin` to `end`."""
    groups = rules.groups(plan)
    recording = [rule for group in groups for rule in group["rules"] if "record" in rule]
    times = (f"--start={begin}", f"--end={end}", f"--eval-interval={step}s")
    for number, level in enumerate(_levels(recording)):
        # A level asks what the one before has recorded, which Prometheus reads when it starts.
        server = Prometheus(folder, before="" if number else samples)
        file = folder / f"level-{number}.yaml"
        file.write_text(yaml.safe_dump({"groups": [{"name": f"level-{number}", "rules": level}]}))
        promtool(
            *("tsdb", "create-blocks-from", "rules", *times, f"--url={server.url}"),
            *(f"--output-dir={server.data}", file),
        )
        server.stop()
    often = [{**group, "interval": "5s"} for group in groups]
    server = Prometheus(folder, groups=often, flags=("--web.cors.origin=.*",))
    server.wait('ALERTS{alertstate="firing"}', _FIRING_S)
    return server


def _levels(recording: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The rules, each after those whose series it asks for."""
    known: set[str] = set()
    names = {rule["record"] for rule in recording}
    while recording:
        ready = [rule for rule in recording if _records(rule["expr"]) & names <= known]
        if not ready:
            raise RuntimeError(f"rules that ask for each other: {[rule['record'] for rule in recording]}")
        yield ready
        recording = [rule for rule in recording if rule not in ready]
        known |= {rule["record"] for rule in ready}


def _records(expression: str) -> set[str]:
    """The recorded series that it asks for."""
    return set(re.findall(r"gpupool:[\w:]+", expression))
