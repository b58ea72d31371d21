"""The areas as docs/architecture.md shows them: from the contracts of import-linter and the docstrings."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- areas: make golden -->\n", "<!-- end of areas -->\n"
_WIDTH = 60


def areas() -> str:
    """The picture of the areas, what import-linter holds beside it, and a section for each area."""
    [layers] = (c["layers"] for c in _contracts("layers") if "containers" not in c)
    names = [name.strip() for layer in layers for name in layer.split("|")]
    return "\n".join(
        [
            "```text",
            *_picture(layers),
            "```",
            "",
            "import-linter also checks these rules:",
            "",
            *(f"- {contract['name']}" for contract in _contracts("forbidden")),
            "",
            *(line for name in names for line in _area(name)),
        ]
    )


def _contracts(kind: str) -> list[dict[str, Any]]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts: list[dict[str, Any]] = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return [contract for contract in contracts if contract["type"] == kind]


def _area(name: str) -> Iterator[str]:
    yield f"### {name.removeprefix('gpupool.')}"
    yield ""
    yield _says(name)
    yield ""
    for contract in _contracts("layers"):
        if contract.get("containers") == [name]:
            order = " → ".join(layer.strip("()").replace(") | (", ", ") for layer in contract["layers"])
            yield f"Imports within the area go from left to right: {order}."
            yield ""
    for contract in _contracts("face"):
        if contract["area"] == name:
            modules = ", ".join(
                f"`{name.removeprefix('gpupool.') if module == '.' else module}`"
                for module in contract["modules"]
            )
            yield f"Other areas import {modules}."
            yield ""
    folder = ROOT / name.replace(".", "/")
    packages = sorted(path.parent.name for path in folder.glob("*/__init__.py"))
    if packages:
        yield "| package | purpose |"
        yield "|---|---|"
        for package in packages:
            yield f"| `{package}` | {_says(f'{name}.{package}')} |"
        yield ""


def _picture(layers: list[str]) -> Iterator[str]:
    """A box for each layer, what it may import below it; names that don't import each other side by side."""
    yield "┌" + "─" * _WIDTH + "┐"
    for number, layer in enumerate(layers):
        if number:
            yield "├" + "─" * _WIDTH + "┤"
        line = "   ".join(name.strip().removeprefix("gpupool.") for name in layer.split("|"))
        yield f"│ {line:<{_WIDTH - 2}} │"
    yield "└" + "─" * _WIDTH + "┘"


def _says(name: str) -> str:
    """The first paragraph of its docstring."""
    path = ROOT / name.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return text.partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
