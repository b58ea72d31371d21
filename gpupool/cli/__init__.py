"""The `gpupool` command: one thin module per verb. The top layer: it may import everything."""
