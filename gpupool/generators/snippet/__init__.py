"""What a workload of one's own says to run on a pool: manifests to fill image and command in.

`wish` is what is asked for, checked against the Plan; `workloads` makes the object of each kind. Both are
pure. It must not depend on the command line, nor on how an environment's own objects are generated.
"""
