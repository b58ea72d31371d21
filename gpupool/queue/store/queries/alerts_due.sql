SELECT scope, name, period, threshold, spent_micro, limit_micro, tries, taken, text FROM gpu_alerts
WHERE sent_at IS NULL AND due_at <= %(now)s
ORDER BY due_at, name, threshold LIMIT %(limit)s
