"""The picture of the queue's roles, docs/queue-roles.svg: what `serve --role` starts, and with which lease.

Read from `gpupool.queue.service`, where the parts are put together; only what a loop does in a few words is
written here.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from gpupool.queue.service import ROLES
from gpupool.queue.store.rights import PART_OF, role_of

SERVICE = Path(__file__).parents[2] / "gpupool" / "queue" / "service.py"
PACKAGE = "gpupool.queue.roles"
DOES = {
    "Callbacks": "calls callback_url of jobs that ended",
    "Executor": "sends HTTP jobs to their targets",
    "Launcher": "Jobs on the cluster, and how they end",
    "Dispatcher": "decides what starts next, and where",
    "Relay": "publishes events to NATS, in order",
    "Janitor": "ends leases that ran out, old history",
    "AlertSender": "budgets, to a webhook and by mail",
    "IdleWatch": "jobs that hold GPUs without use",
    "API and pages": "people, pods of tenants, Prometheus",
}
"""Loop -> what it does, or who asks it; in the order in which they are drawn within a column."""
_COLUMN, _GAP, _BOX, _LINE = 300, 15, 62, 17
_TOP = 68
_FONT = 'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="12"'


@dataclass(frozen=True, slots=True)
class Loop:
    name: str
    role: str
    """What --role of `gpupool serve` starts it."""
    leads: str
    """The role of its lease; empty where every process of the role works."""


def loops() -> list[Loop]:
    """In the order of ROLES and of the service."""
    tree = ast.parse(SERVICE.read_text(encoding="utf-8"))
    classes = {
        name.name: getattr(importlib.import_module(node.module), name.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}.")
        for name in node.names
    }
    (run,) = (
        node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef) and node.name == "_run"
    )
    started = [Loop("API and pages", "api", "")]
    for block in run.body:
        role = re.fullmatch(r"'(\w+)' in options\.roles", ast.unparse(getattr(block, "test", block)))
        for call in (node for node in ast.walk(block) if role and isinstance(node, ast.Call)):
            name = ast.unparse(call.func)
            if hasattr(classes.get(name), "run"):
                leads = [re.fullmatch(r"leads\('(\w+)'\)", ast.unparse(part)) for part in call.args]
                started.append(Loop(name, role[1], next((lease[1] for lease in leads if lease), "")))
    return started


def svg() -> str:
    parts = list(dict.fromkeys(PART_OF[role] for role in ROLES))
    columns = {part: [loop for loop in loops() if PART_OF[loop.role] == part] for part in parts}
    deepest = max(len(column) for column in columns.values())
    bottom = _TOP + deepest * (_BOX + _GAP) + _GAP
    width, height = len(parts) * (_COLUMN + _GAP) + _GAP, bottom + _BOX + 2 * _GAP + 20
    drawn = [
        '<svg style="background: #fff; color: #000" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}" aria-labelledby="title">',
        '<title id="title">The roles of the queue: three parts, their loops, the database</title>',
        f'<g fill="none" stroke="currentColor" {_FONT}>',
    ]
    for number, (part, column) in enumerate(columns.items()):
        drawn += _part(part, column, _GAP + number * (_COLUMN + _GAP), bottom)
    store = [
        "PostgreSQL: jobs, attempts, money, events, leases",
        "the only thing that two processes share; NOTIFY wakes who waits",
    ]
    drawn += _box(_GAP, bottom + 20, width - 2 * _GAP, _BOX - 14, store)
    return "\n".join([*drawn, "</g>", "</svg>", ""])


def _part(part: str, column: list[Loop], left: int, bottom: int) -> Iterator[str]:
    """A frame with the part's loops in it, and a line down to the database."""
    roles = ", ".join(role for role in ROLES if PART_OF[role] == part)
    yield _text(left + 10, 24, f"--role {roles}", bold=True)
    yield _text(left + 10, 24 + _LINE, f"rights of {role_of(part)}")
    yield f'<rect x="{left}" y="5" width="{_COLUMN}" height="{bottom - 5}" stroke-dasharray="3 3"/>'
    middle = left + _COLUMN // 2
    yield f'<path d="M{middle} {bottom}v20m-4 -6l4 6l4 -6M{middle - 4} {bottom + 6}l4 -6l4 6"/>'
    for row, loop in enumerate(sorted(column, key=lambda loop: ROLES.index(loop.role))):
        works = f"one process leads (lease {loop.leads})" if loop.leads else "every process works"
        yield from _box(
            left + 10, _TOP + row * (_BOX + _GAP), _COLUMN - 20, _BOX, [loop.name, DOES[loop.name], works]
        )


def _box(left: int, top: int, width: int, height: int, lines: list[str]) -> Iterator[str]:
    yield f'<rect x="{left}" y="{top}" width="{width}" height="{height}"/>'
    for number, line in enumerate(lines):
        yield _text(left + 8, top + 18 + number * _LINE, line, bold=number == 0)


def _text(x: int, y: int, text: str, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x}" y="{y}" fill="currentColor" stroke="none"{weight}>{escape(text)}</text>'
