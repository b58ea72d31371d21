DELETE FROM gpu_idempotency WHERE ctid IN (
    SELECT ctid FROM gpu_idempotency WHERE created_at < %(before)s LIMIT %(limit)s)
