"""Grafana dashboards of an environment, with rows for its pools by how they are shared.

The panels are in `boards.yaml`; this is their only reader. The classic JSON model (schemaVersion 39) is read
by Grafana 10 to 13, from files, the sidecar and Grafana's operator (Grafana documentation, JSON model). No
Grafana server has been run with them.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml

from gpupool.environment.plan.model import Plan, Pool
from gpupool.generators.monitoring.rules import filled, holds, values

Board = dict[str, Any]
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_LONGEST = 22
_COLUMNS, _HEIGHT, _STAT_HEIGHT = 24, 8, 4

KINDS: Mapping[str, Callable[[Pool], bool]] = {
    "exclusive": lambda pool: pool.sharing.plugin_key is None and not pool.sharing.layout,
    "mig": lambda pool: bool(pool.sharing.layout),
    "shared": lambda pool: pool.sharing.plugin_key is not None,
    "profiling": lambda pool: pool.gpu.profiling,
}
"""Which pools have a row."""


def boards(plan: Plan) -> list[Board]:
    """Every dashboard of the environment."""
    return [_board(row, plan) for row in _data()["boards"] if holds(row, plan)]


def _board(row: Mapping[str, Any], plan: Plan) -> Board:
    panels = list(_panels(row, plan, values(plan)))
    variables = [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
        *(variable for name, variable in _variables(plan).items() if _uses(panels, f"${name}")),
    ]
    return {
        "uid": f"gpupool-{_short(plan.environment)}-{row['board']}",
        "title": f"{row['title']}: {plan.environment}",
        "tags": ["gpupool", plan.environment],
        "schemaVersion": 39,
        "editable": False,
        "timezone": "browser",
        "refresh": "1m",
        "time": {"from": "now-12h", "to": "now"},
        "templating": {"list": variables},
        "panels": panels,
    }


def _short(environment: str) -> str:
    """The environment's name, or of a long one its beginning and a hash: an uid has 40 characters at most
    (Grafana documentation, dashboard API)."""
    if len(environment) <= _LONGEST:
        return environment
    return f"{environment[: _LONGEST - 6]}{sha256(environment.encode()).hexdigest()[:6]}"


def _uses(panels: list[Board], variable: str) -> bool:
    return any(variable in target["expr"] for panel in panels for target in panel.get("targets", ()))


def _variables(plan: Plan) -> dict[str, Board]:
    """Tenants are those of the file; nodes come and go."""
    names = ",".join(tenant.name for tenant in plan.tenants)
    shared = {
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }
    query = "label_values(gpupool:node_engine_active:ratio, node)"
    return {
        "tenant": {"name": "tenant", "label": "Tenant", "type": "custom", "query": names, **shared},
        "node": {
            "name": "node",
            "label": "Node",
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": query, "refId": "node"},
            "refresh": 2,
            **shared,
        },
    }


def _panels(board: Mapping[str, Any], plan: Plan, of_plan: Mapping[str, str]) -> Iterator[Board]:
    numbers, top = itertools.count(1), 0
    for row, pool in _rows(board, plan):
        shown = [panel for panel in row["panels"] if holds(panel, plan)]
        if not shown:
            continue
        known = {**of_plan, "pool": pool.name if pool else ""}
        yield {
            "id": next(numbers),
            "type": "row",
            "title": filled(row["title"], known),
            "gridPos": _place(0, top, _COLUMNS, 1),
            "panels": [],
        }
        top, left, tallest = top + 1, 0, 0
        for panel in shown:
            height = _STAT_HEIGHT if panel["type"] == "stat" else _HEIGHT
            if left + panel["width"] > _COLUMNS:
                top, left, tallest = top + tallest, 0, 0
            yield _panel(panel, next(numbers), _place(left, top, panel["width"], height), known)
            left, tallest = left + panel["width"], max(tallest, height)
        top += tallest


def _rows(board: Mapping[str, Any], plan: Plan) -> Iterator[tuple[Mapping[str, Any], Pool | None]]:
    """The board's rows; those that each pool has stand together, pool by pool."""
    for of_pools, rows in itertools.groupby(board["rows"], lambda row: "each" in row):
        if not of_pools:
            yield from ((row, None) for row in rows if holds(row, plan))
            continue
        every = list(rows)
        yield from ((row, pool) for pool in plan.pools for row in every if KINDS[row["of"]](pool))


def _place(left: int, top: int, width: int, height: int) -> dict[str, int]:
    return {"x": left, "y": top, "w": width, "h": height}


def _panel(row: Mapping[str, Any], number: int, place: Mapping[str, int], known: Mapping[str, str]) -> Board:
    share = {"min": 0, "max": 1} if row["unit"] == "percentunit" and "over" not in row else {"min": 0}
    custom = (
        {"custom": {"lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}}
        if row["type"] == "timeseries"
        else {}
    )
    instant = row["type"] in ("table", "bargauge")
    return {
        "id": number,
        "type": row["type"],
        "title": row["title"],
        "description": filled(row["description"], known),
        "datasource": _SOURCE,
        "gridPos": dict(place),
        "fieldConfig": {"defaults": {"unit": row["unit"], **share, **custom}, "overrides": []},
        "options": _OPTIONS.get(row["type"], {}),
        **({"transformations": [_columns(row["columns"])]} if "columns" in row else {}),
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": filled(expression, known),
                "legendFormat": legend,
                **({"instant": True, "range": False} if instant else {}),
                **({"format": "table"} if row["type"] == "table" else {}),
            }
            for index, (expression, legend) in enumerate(row["show"])
        ],
    }


def _columns(shown: Mapping[str, str]) -> dict[str, Any]:
    """A table's columns, label -> title, in their order; without it Grafana shows the time too."""
    hidden = {name: True for name in ("Time", "Value") if name not in shown}
    order = {name: index for index, name in enumerate(shown)}
    options = {"excludeByName": hidden, "renameByName": dict(shown), "indexByName": order}
    return {"id": "organize", "options": options}


_OPTIONS: Mapping[str, Any] = {
    "timeseries": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}},
    "bargauge": {"orientation": "horizontal", "displayMode": "basic"},
    "heatmap": {"calculate": True},
    "stat": {"colorMode": "none", "graphMode": "area"},
}


@functools.cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "boards.yaml").read_bytes())
    return data
