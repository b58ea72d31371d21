UPDATE gpu_sessions SET ended_at = %(now)s WHERE hash = %(hash)s AND ended_at IS NULL
