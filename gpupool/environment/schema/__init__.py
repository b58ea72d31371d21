"""The published JSON Schemas, made from the models of `gpupool.spec` and `gpupool.catalog`."""
