"""Checks the prerequisites of `gpupool up` for an environment, on this machine and in the cluster.

Each check (`checks.CHECKS`) looks at one thing and answers with `Result`s: a reason with values, which
`reasons` makes sentences of. Nothing is changed, and what `up` looks at itself is looked at by the same code.
"""
