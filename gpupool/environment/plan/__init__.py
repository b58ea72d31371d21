"""Environment and catalog -> Plan: every default filled, every cross-check done.

`resolve` makes it, `model` is what it is, `checks` are over it, `changes` between two. No network.
"""
