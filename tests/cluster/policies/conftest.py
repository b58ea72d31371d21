"""An environment with its own state on the shared control plane, as the tests of the stack have it."""

from tests.cluster.pulumi.conftest import world

__all__ = ["world"]
