"""The layers as docs/architecture.md shows them: from the contracts of import-linter and the docstrings."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- layers: make golden -->\n", "<!-- end of layers -->\n"
_WIDTH = 100


def layers() -> str:
    """Both pictures, and a line for each package."""
    every, queue = (contract for contract in _contracts() if contract["type"] == "layers")
    packages = [name for layer in every["layers"] for name in _names(layer, "")]
    packages += [name for layer in queue["layers"] for name in _names(layer, "gpupool.queue.")]
    rows = [f"| `{name}` | {_says(name)} |" for name in dict.fromkeys(packages)]
    return "\n".join(
        [
            "```text",
            *_picture(every["layers"], "gpupool."),
            "```",
            "",
            "Inside of the queue:",
            "",
            "```text",
            *_picture(queue["layers"], "gpupool.queue."),
            "```",
            "",
            "Beside the layers, import-linter holds these:",
            "",
            *(f"- {contract['name']}" for contract in _contracts() if contract["type"] != "layers"),
            "",
            "| package | what it is for |",
            "|---|---|",
            *rows,
            "",
        ]
    )


def _contracts() -> list[dict[str, Any]]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts: list[dict[str, Any]] = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return contracts


def _names(layer: str, prefix: str) -> list[str]:
    return [prefix + name.strip("() ") for name in layer.split("|")]


def _picture(every: list[str], prefix: str) -> Iterator[str]:
    """A box for each layer, what it may import below it; names that don't import each other side by side."""
    yield "┌" + "─" * _WIDTH + "┐"
    for number, layer in enumerate(every):
        if number:
            yield "├" + "─" * _WIDTH + "┤"
        line = ""
        for name in (name.removeprefix(prefix) for name in _names(layer, "")):
            if len(line) + len(name) + 3 > _WIDTH - 2:
                yield f"│ {line:<{_WIDTH - 2}} │"
                line = ""
            line = f"{line}   {name}" if line else name
        yield f"│ {line:<{_WIDTH - 2}} │"
    yield "└" + "─" * _WIDTH + "┘"


def _says(name: str) -> str:
    """The first paragraph of its docstring."""
    path = ROOT / name.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return text.partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
