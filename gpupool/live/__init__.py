"""The live cluster: access to it, gpupool's objects in it, drift, and changes of running nodes.

Needs no Pulumi. Objects are compared with what `gpupool.generators` makes of the Plan.
"""
