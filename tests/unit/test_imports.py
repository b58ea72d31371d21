"""No module imports itself through others, in functions and for types neither."""

from __future__ import annotations

from graphlib import TopologicalSorter

import grimp


def test_there_is_no_import_cycle() -> None:
    graph = grimp.build_graph("gpupool", "vapcheck")
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the cycle
