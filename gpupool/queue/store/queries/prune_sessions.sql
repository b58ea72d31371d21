DELETE FROM gpu_sessions WHERE ctid IN (
    SELECT ctid FROM gpu_sessions WHERE ends_at < %(before)s LIMIT %(limit)s)
