"""The published JSON Schemas, made from the models of `gpupool.environment.spec` and
`gpupool.environment.catalog`."""
