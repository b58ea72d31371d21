UPDATE gpu_clocks SET clock = greatest(0, clock + %(change)s::numeric) WHERE pool = %(pool)s AND tenant = %(tenant)s
