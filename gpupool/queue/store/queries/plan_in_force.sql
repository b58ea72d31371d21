SELECT hash, since, holder FROM gpu_plans ORDER BY since DESC LIMIT 1
