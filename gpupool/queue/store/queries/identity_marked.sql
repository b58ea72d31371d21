UPDATE gpu_identity SET
    database = %(database)s::uuid,
    mark = %(mark)s::uuid,
    lease = %(lease)s,
    lease_since = CASE WHEN lease IS DISTINCT FROM %(lease)s THEN %(now)s ELSE lease_since END,
    take_over = NULL
