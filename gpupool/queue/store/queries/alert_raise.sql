-- Once per threshold and period.
INSERT INTO gpu_alerts (scope, name, period, threshold, spent_micro, limit_micro, due_at)
SELECT scope, name, period, threshold, spent_micro, limit_micro, %(now)s
FROM jsonb_to_recordset(%(crossed)s::jsonb) AS g (
    scope text, name text, period date, threshold int, spent_micro bigint, limit_micro bigint)
ON CONFLICT DO NOTHING
