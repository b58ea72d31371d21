"""Which queries each part of the queue runs, read from the source.

From the modules of a part, through the functions of the store that they name, to the statements that those
run. A method counts as used with its class.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

QUEUE = Path(__file__).parents[3] / "gpupool" / "queue"
QUERIES = frozenset(path.stem for path in (QUEUE / "store" / "queries").glob("*.sql"))
STORE = "gpupool.queue.store"
MODULES = {
    "api": ["api/*.py", "web/*.py", "http_server.py", "roles/queue_health.py", "roles/plan_in_force.py"],
    "dispatcher": [f"roles/{name}.py" for name in (
        "dispatcher", "offering", "plan_in_force", "relay", "janitor", "alerts", "idle", "leader",
        "queue_health")],
    "executor": ["kubernetes/*.py", *(f"roles/{name}.py" for name in (
        "executor", "launcher", "claim", "orphaned_jobs", "queue_health", "reconciler", "progress",
        "attempt_notes", "callbacks", "http_job", "attempt", "leader", "plan_in_force"))],
    "keys": ["../cli/queue/keys.py", "../cli/queue/take_over.py"],
}  # fmt: skip
RUNNERS = {"fetch", "run", "send", "send_tuples"}

Place = tuple[str, str]
"""Module of the store, and a function or class in it."""


@cache
def queries_of(part: str) -> frozenset[str]:
    """Names of the queries that a part runs."""
    todo = [
        place
        for pattern in MODULES[part]
        for path in sorted(QUEUE.glob(pattern) if "*" in pattern else [QUEUE / pattern])
        for place in _named(ast.parse(path.read_text()), None)
    ]
    seen: set[Place] = set()
    queries: set[str] = set()
    while todo:
        place = todo.pop()
        node = _definitions(place[0]).get(place[1])
        if node is None or place in seen:
            continue
        seen.add(place)
        queries |= set(_run_by(node))
        todo += _named(node, place[0])
    return frozenset(queries)


@cache
def _module(name: str) -> ast.Module:
    path = QUEUE / "store" / f"{name}.py"
    return ast.parse(path.read_text() if path.exists() else "")


@cache
def _definitions(module: str) -> dict[str, ast.AST]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name: node for node in _module(module).body if isinstance(node, kinds)}


def _named(tree: ast.AST, module: str | None) -> Iterator[Place]:
    """What of the store a tree names, which is a module, or a definition of that module of the store."""
    modules, names = {}, {name: (module, name) for name in (_definitions(module) if module else ())}
    for node in ast.walk(_module(module) if module else tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(STORE):
            for alias in node.names:
                if node.module == STORE:
                    modules[alias.asname or alias.name] = alias.name
                else:
                    names[alias.asname or alias.name] = (
                        str(node.module).removeprefix(STORE + "."),
                        alias.name,
                    )
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield modules[node.value.id], node.attr
        elif isinstance(node, ast.Name) and node.id in names:
            place = names[node.id]
            yield str(place[0]), place[1]


def _run_by(definition: ast.AST) -> Iterator[str]:
    texts = {
        node.value
        for node in ast.walk(definition)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    for call in ast.walk(definition):
        if not isinstance(call, ast.Call):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        for argument in call.args[:2] if name in RUNNERS else ():
            if isinstance(argument, ast.Constant) and argument.value in QUERIES:
                yield str(argument.value)
            elif isinstance(argument, ast.JoinedStr) and isinstance(argument.values[0], ast.Constant):
                yield from (query for query in QUERIES if query.startswith(str(argument.values[0].value)))
            elif isinstance(argument, ast.Name) and argument.id not in ("connection", "db"):
                yield from texts & QUERIES
