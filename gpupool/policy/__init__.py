"""Evaluates policies before anything is applied: rules over a whole bundle, the gate of `up`, `policy check`.

Expressions are evaluated by `vapcheck`; this area knows environments and pools. Nothing here prints.
"""
