"""`gpupool policy`: what is asked on the command line, and running the fixtures of policies."""
