"""The contract `face` of import-linter: code outside of an area imports only the modules that the area lists.

Registered in pyproject.toml as the contract type `face`. Imports within the area are free; `layers` decides
which areas may import each other at all.
"""

from __future__ import annotations

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class FaceContract(Contract):
    """`area` is a package; `modules` are the names below it that others may import, `.` for itself.

    A listed name that nobody outside imports is reported too, so that the list stays what is used.
    """

    area = fields.StringField()
    modules = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        area = str(self.area)
        inside = {area, *graph.find_descendants(area)}
        allowed = {area if name == "." else f"{area}.{name}" for name in map(str, self.modules)}
        used = {
            module: sorted(graph.find_modules_that_directly_import(module) - inside)  # type: ignore[operator]
            for module in inside
        }
        past = [f"{who} imports {module}" for module in sorted(inside - allowed) for who in used[module]]
        unused = [f"nobody imports {module}" for module in sorted(allowed) if not used.get(module)]
        return ContractCheck(kept=not past and not unused, metadata={"broken": past + unused})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for line in check.metadata["broken"]:
            output.print_error(line)
