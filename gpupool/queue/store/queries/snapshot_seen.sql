-- The transactions that this snapshot sees, and the Plans whose policies it has.
SELECT pg_current_snapshot()::text, (SELECT string_agg(DISTINCT plan_hash, ' ') FROM tenant_gpu_policies)
