"""Whether a node offers what it should, and if not, why: labels, the MIG manager's state, slices. Pure.

Slices decide: they are what jobs get. The MIG manager's state is checked as well, since the plugin goes on
offering the old slices until the manager has stopped it (mig-parted v0.15.0).
"""

from __future__ import annotations

from gpupool.live.repartition.shapes import LiveNode, Shape

UNDER_WAY = ("pending", "rebooting")


def missing(node: LiveNode, shape: Shape, strict: bool = True) -> str | None:
    """What keeps `node` from being in `shape`, in words; None where it is.

    Not strict: a MIG manager that says `failed` is ignored where the slices are right, as
    they are on a node that goes back after the manager has failed before it touched anything.
    """
    if not node.ready:
        return "the node is not Ready"
    if not node.has_labels_of(shape):
        return f"its labels request {node.mig or node.plugin or 'nothing'}"
    if node.mig_state in UNDER_WAY:
        return f"the MIG manager is running ({node.mig_state})"
    if strict and shape.mig is not None and node.mig_state != "success":
        return f"the MIG manager reports {node.mig_state or 'nothing yet'}"
    if shape.slices and dict(node.slices) != dict(shape.slices):
        return f"it offers {node.shape()} instead of {shape}"
    return None


def reached(node: LiveNode, shape: Shape, strict: bool = True) -> bool:
    """Whether `node` is in `shape` and says so."""
    return missing(node, shape, strict) is None
