"""The table of shipped policies in the documentation says what the policies say of themselves.

`make golden` writes it again from their annotations.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gpupool.plan.policy_files import BINDING, POLICY, SHIPPED, read_objects

TABLE = Path(__file__).parents[2] / "docs" / "policy-table.md"
_HEAD = """# The policies that ship

Written from the policies' own annotations (`make golden`). *On a violation* is what the binding says;
`policies.default` and `policies.overrides` of the environment file change it. *Judges by* is the ConfigMap in
`gpupool-system` that is made from the environment file; where it is missing, as in a folder of foreign
manifests, the policy is not applied.

| policy | guards | why | to put it right | on a violation | judges by |
|---|---|---|---|---|---|
"""


def table() -> str:
    objects = read_objects(sorted(SHIPPED.glob("*.yaml")))
    bindings = {body["spec"]["policyName"]: body for body in objects if body["kind"] == BINDING}
    return _HEAD + "".join(
        row(body, bindings[body["metadata"]["name"]]) for body in objects if body["kind"] == POLICY
    )


def row(policy: Any, binding: Any) -> str:
    name = policy["metadata"]["name"]
    said = [
        policy["metadata"]["annotations"][f"policies.gpupool.dev/{key}"] for key in ("title", "why", "fix")
    ]
    action = ", ".join(binding["spec"]["validationActions"]).lower()
    parameters = binding["spec"].get("paramRef", {}).get("name")
    cells = [f"`{name}`", *said, action, f"`{parameters}`" if parameters else ""]
    assert not any("|" in cell or "\n" in cell for cell in cells), (
        f"{name} has an annotation that breaks the table"
    )
    return f"| {' | '.join(cells)} |\n"


def test_the_table_is_that_of_the_policies() -> None:
    wanted = table()
    if os.environ.get("GPUPOOL_WRITE_GOLDEN"):
        TABLE.write_text(wanted, encoding="utf-8")
    assert TABLE.read_text(encoding="utf-8") == wanted


def test_every_policy_has_fixtures_and_a_file_of_its_name() -> None:
    for path in SHIPPED.glob("*.yaml"):
        names = {body["metadata"]["name"] for body in read_objects([path])}
        assert names == {path.stem}
        assert {file.stem for file in (SHIPPED / "fixtures" / path.stem).iterdir()} >= {"good", "bad"}
