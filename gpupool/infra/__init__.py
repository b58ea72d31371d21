"""What `gpupool up`, `preview` and `destroy` do: the Pulumi program, its stack, and checks around them.

Only this area imports pulumi. Requests to a cluster go through `gpupool.live.cluster`.
"""
