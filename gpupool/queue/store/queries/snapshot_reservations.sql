SELECT pool, job FROM gpu_reservations
