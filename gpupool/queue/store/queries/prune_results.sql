DELETE FROM gpu_results WHERE ctid IN (SELECT ctid FROM gpu_results WHERE at < %(before)s LIMIT %(limit)s)
