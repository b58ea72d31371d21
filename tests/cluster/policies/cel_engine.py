"""What our engine makes of the expressions of the differential suite, in the form of the server's
outcomes."""

from __future__ import annotations

from tests.cluster.policies.cel_expressions import Expression
from tests.cluster.policies.cel_server import Outcome, shown, specimen, variable_failed
from vapcheck.cel.environment import Environment
from vapcheck.cel.errors import CompileError, EvaluationError
from vapcheck.cel.libraries.authorization import Attributes, Authorizer, ResourceCheck
from vapcheck.cel.program import Scope
from vapcheck.judging.request import Request, User
from vapcheck.server.kinds import Resource
from vapcheck.server.minors import NEWEST

ADMIN = "admin"


class AdminOnly:
    """The rights on a fresh cluster, as far as the expressions ask."""

    def decide(self, attributes: Attributes) -> tuple[bool, str]:
        """Everything for the administrator."""
        return attributes.user == ADMIN, ""


def engine_outcome(number: int, expression: Expression, minor: str = NEWEST) -> Outcome:
    """Compile, evaluate and show one expression, as a policy with it as a variable would in that minor."""
    environment = Environment.admission(authorizer=True, minor=minor)
    try:
        program = environment.compile(expression.text)
        environment = environment.with_variable(f"e{number}", program)
        show = environment.compile(shown(number))
    except CompileError as error:
        return Outcome("refused", error.message)
    try:
        text = show.evaluate(_scope().with_variables({f"e{number}": program}))
    except EvaluationError as error:
        return Outcome("error", str(error).removeprefix(variable_failed(number)))
    return Outcome("value", text)


def _scope() -> Scope:
    """The values of the request that the server is sent."""
    decider, groups = AdminOnly(), ("system:masters",)
    resource = Resource("differential.gpupool.dev", "v1", "Specimen", "specimens", namespaced=True)
    user = User(ADMIN, ("system:masters", "system:authenticated"))
    request = Request("CREATE", resource, "specimen", "default", specimen(0), None, user, dry_run=True)
    namespace = {
        "metadata": {"name": "default", "labels": {"kubernetes.io/metadata.name": "default"}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }
    asked = Attributes(
        ADMIN,
        groups,
        group=resource.group,
        resource=resource.plural,
        namespace="default",
        name="specimen",
    )
    return Scope(
        {
            "object": specimen(0),
            "oldObject": None,
            "request": request.as_cel(),
            "namespaceObject": namespace,
            "authorizer": Authorizer(decider, Attributes(ADMIN, groups)),
            "authorizer.requestResource": ResourceCheck(decider, asked),
        }
    )
