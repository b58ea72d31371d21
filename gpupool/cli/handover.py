"""`gpupool handover ENV --to ENGINE`: transfers ownership of fields to the new delivery engine."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gpupool.cli.output import EnvArgument, FormatOption, print_answer, print_table
from gpupool.cli.progress import progress

if TYPE_CHECKING:
    from gpupool.environment.plan.model import Plan
    from gpupool.infra.handover import HandedOver


def handover(
    env: EnvArgument,
    to: Annotated[
        Literal["argocd", "flux", "pulumi"],
        typer.Option("--to", help="The new delivery engine; the file's delivery.engine must match."),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change.")] = False,
    format: FormatOption = "text",
) -> None:
    """Transfer ownership of the objects in the cluster to a new delivery engine, field by field.

    Without a handover, a key that is deleted from the file stays in the cluster, because the previous engine
    still owns it. No value of an object changes. To undo it, set delivery.engine back and hand over to that
    engine.

    Example: gpupool handover prod --to argocd
    """
    from gpupool.environment.plan.resolve import read_plan
    from gpupool.generators import generate
    from gpupool.infra.handover import hand_over, require_engine
    from gpupool.live.cluster import access

    plan = read_plan(env)
    require_engine(plan, to)
    access.require_cluster(plan)
    with progress(f"handover {env}") as report:
        changed = hand_over(plan, generate(plan), access.connect(plan), report, dry_run)
    data = {
        "environment": plan.environment,
        "to": to,
        "dryRun": dry_run,
        "objects": [{"object": str(row.object), "owners": list(row.owners)} for row in changed],
    }
    print_answer(format, data, lambda: _print(plan, changed, dry_run))


def _print(plan: Plan, changed: list[HandedOver], dry_run: bool) -> None:
    engine = plan.delivery.by
    if not changed:
        print(f"{plan.environment}: no other engine owns fields that {engine.title} delivers")
        return
    counts = Counter((row.object.kind, ", ".join(row.owners)) for row in changed)
    rows = [(kind, number, owners, engine.managers[0]) for (kind, owners), number in sorted(counts.items())]
    print_table(("KIND", "OBJECTS", "OWNED BY", "WOULD BE" if dry_run else "NOW"), rows, right=("OBJECTS",))
    verb = "would go" if dry_run else "went"
    print(f"\n{plan.environment}: {len(changed)} objects {verb} to {engine.title}; no value has changed")
    if dry_run:
        return
    if plan.delivery.gitops:
        print(f"make Pulumi forget them: pulumi stack rm {plan.environment} --force")
    else:
        # What the engine before has changed is in no state of Pulumi's yet.
        print(f"then: gpupool refresh {plan.environment} && gpupool up {plan.environment}")
