UPDATE gpu_identity SET take_over = %(whose)s
