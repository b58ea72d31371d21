DELETE FROM gpu_logs WHERE ctid IN (SELECT ctid FROM gpu_logs WHERE at < %(before)s LIMIT %(limit)s)
