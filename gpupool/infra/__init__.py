"""What `gpupool up`, `preview` and `destroy` do: the Pulumi program, its stack, and checks around them.

Beside it only `gpupool.infra.pulumi_plugins` imports pulumi. Requests to a cluster go through
`gpupool.live.cluster`.
"""
