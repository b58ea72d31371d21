"""Manifests of workloads that run on a pool, with image and command to fill in.

`wish` is the request, checked against the Plan; `workloads` makes the object of each kind. Both are pure.
Neither depends on the command line, or on how an environment's own objects are generated.
"""
