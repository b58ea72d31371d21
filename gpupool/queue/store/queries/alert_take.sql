-- Whoever takes it has until %(until)s to send it; then it is due again.
UPDATE gpu_alerts SET due_at = %(until)s
WHERE (scope, name, period, threshold) = (
    SELECT scope, name, period, threshold FROM gpu_alerts
    WHERE sent_at IS NULL AND due_at <= %(now)s
    ORDER BY due_at, name, threshold LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING scope, name, period, threshold, spent_micro, limit_micro, tries, taken, text
