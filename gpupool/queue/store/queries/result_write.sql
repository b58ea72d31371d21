-- An earlier release kept the answers of attempts that were not the last.
INSERT INTO gpu_results (job, status, headers, body, truncated)
VALUES (%(job)s::uuid, %(status)s, %(headers)s::jsonb, %(body)s, %(truncated)s)
ON CONFLICT (job) DO UPDATE SET
    status = excluded.status, headers = excluded.headers, body = excluded.body, truncated = excluded.truncated
