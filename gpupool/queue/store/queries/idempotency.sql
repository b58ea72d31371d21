-- Take the key. No row: it is taken, or another transaction has just committed it.
INSERT INTO gpu_idempotency (tenant, key, fingerprint, job_ids, created_at)
VALUES (%(tenant)s, %(key)s, %(fingerprint)s, %(ids)s::uuid[], %(now)s)
ON CONFLICT (tenant, key) DO NOTHING
RETURNING 1 AS taken
