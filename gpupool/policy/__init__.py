"""Judges what gpupool would apply: rules over a whole bundle, the gate of `up`, and `policy check`.

Expressions are evaluated by `vapcheck`; this area knows environments and pools. Nothing here prints.
"""
