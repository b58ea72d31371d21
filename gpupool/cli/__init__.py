"""The `gpupool` command: one thin module per verb. The top layer: may import everything, owns nothing."""
