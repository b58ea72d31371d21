"""`gpupool policy`: what is asked on the command line, and each form in which a check is printed."""
