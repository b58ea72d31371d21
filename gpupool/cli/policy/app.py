"""`gpupool policy check | test`: ValidatingAdmissionPolicies judged offline, and policies judged by fixtures.

Thin: `gpupool.policy.targets` sorts targets, `gpupool.policy.check` has them judged,
`gpupool.cli.findings` prints. Libraries that a folder of manifests does not need (pydantic, Pulumi,
rich) must not be imported for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpupool.cli.output import FindingFormatOption, Format
from gpupool.cli.policy.answer import answer
from gpupool.policy.check import Bind, Operation, Question

app = typer.Typer(
    name="policy",
    help="Check environments and manifests against policies; test policies.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def check(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="ENV|DIR|FILE",
            help="An environment's name or file, or manifests; - is standard input.",
            show_default=False,
        ),
    ],
    policies: Annotated[
        list[Path] | None,
        typer.Option("--policies", metavar="DIR", help="More policies: a folder or a file. Repeatable."),
    ] = None,
    output: FindingFormatOption = "text",
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="NAME", help="The user of the request, as request.userInfo.username."),
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="NAME", help="A group of the user. Repeatable."),
    ] = None,
    operation: Annotated[
        Operation,
        typer.Option("--operation", help="The operation; UPDATE uses each object as its own old object."),
    ] = Operation.CREATE,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", metavar="NAME", help="The namespace of objects that name none."),
    ] = None,
    namespace_labels: Annotated[
        list[str] | None,
        typer.Option("--namespace-labels", metavar="KEY=VALUE", help="Labels of that namespace. Repeatable."),
    ] = None,
    bind: Annotated[
        Bind | None,
        typer.Option("--bind", help="Also evaluate policies without a binding, with this action."),
    ] = None,
    uid: Annotated[
        str | None, typer.Option("--user-uid", metavar="UID", help="The user's uid, as request.userInfo.uid.")
    ] = None,
    extra: Annotated[
        list[str] | None,
        typer.Option(
            "--user-extra", metavar="KEY=VALUE", help="An entry of request.userInfo.extra. Repeatable."
        ),
    ] = None,
    subresource: Annotated[
        str | None,
        typer.Option("--subresource", metavar="NAME", help="Subresource of the request, as in pods/exec."),
    ] = None,
    kubernetes: Annotated[
        str | None,
        typer.Option(
            "--kubernetes-version", metavar="1.N", help="The cluster's minor version; default: newest."
        ),
    ] = None,
) -> None:
    """Evaluate policies (CEL) against every object, as the API server does, without a cluster.

    Manifests are checked against the policies among them and those of --policies, or, if there are none,
    against the policies that ship with gpupool. Exit 0: nothing is denied (warnings are possible). 1:
    something is denied or can't be read. 2: usage error, or nothing to check.

    With an environment, manifests are checked against its policies; its generated manifests are skipped.

    Example: gpupool policy check prod jobs/ -o sarif > policy.sarif
    """
    question = Question(
        tuple(targets),
        tuple(policies or ()),
        user,
        tuple(groups or ()),
        operation,
        namespace,
        tuple(namespace_labels or ()),
        bind,
        uid,
        tuple(extra or ()),
        subresource,
        kubernetes,
    )
    raise typer.Exit(answer(question, output))


@app.command("test")
def run_fixtures(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="Folder of policies, with fixtures in DIR/fixtures/POLICY/."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("-k", metavar="NAME", help="Only policies whose name contains NAME.")
    ] = None,
    mutate: Annotated[
        bool, typer.Option("--mutate", help="Also weaken each expression in turn; a fixture must fail.")
    ] = False,
    output: Annotated[
        Format, typer.Option("-o", "--format", help="text for people, json for machines.")
    ] = "text",
    kubernetes: Annotated[
        str | None,
        typer.Option(
            "--kubernetes-version", metavar="1.N", help="The cluster's minor version; default: newest."
        ),
    ] = None,
) -> None:
    """Run the good and bad fixtures of every policy; with --mutate, check that they detect mistakes.

    good*.yaml must pass. bad*.yaml must be denied with the message in its annotation
    policies.gpupool.dev/expect. A policy without fixtures or without a binding fails.

    Example: gpupool policy test policies -k gpu-pods --mutate
    """
    from gpupool.cli.policy.fixtures import run

    if not run(folder, name or "", mutate, output, kubernetes):
        raise typer.Exit(1)
