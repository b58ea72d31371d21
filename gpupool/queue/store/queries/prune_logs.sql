DELETE FROM gpu_logs WHERE ctid IN (
    SELECT l.ctid FROM gpu_logs l
    WHERE l.at < %(before)s AND NOT EXISTS (
        SELECT FROM gpu_attempts a
        WHERE a.job = l.job AND (a.finished_at IS NULL OR a.finished_at >= %(before)s))
    LIMIT %(limit)s)
