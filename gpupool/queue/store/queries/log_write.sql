-- Lines of an attempt's output, and how far it has been read. Only the attempt that runs writes: what a fenced out
-- executor still sends is not kept. Of what comes after its first part, the oldest chunks that the last part no
-- longer needs go.
WITH attempt AS (
    UPDATE gpu_attempts SET
        log_bytes = log_bytes + %(skipped)s::bigint + %(bytes)s::bigint,
        log_head = coalesce(log_head, CASE WHEN log_bytes + %(skipped)s::bigint >= %(head)s::bigint THEN coalesce((
            SELECT max(number) FROM gpu_logs
            WHERE gpu_logs.job = %(job)s::uuid AND gpu_logs.attempt = %(attempt)s), 0) END),
        logged_until = coalesce(%(until)s, logged_until)
    WHERE job = %(job)s::uuid AND attempt = %(attempt)s AND finished_at IS NULL
    RETURNING job, attempt, log_bytes, log_head
), written AS (
    INSERT INTO gpu_logs (job, attempt, at, text, start)
    SELECT job, attempt, coalesce(%(now)s::timestamptz, now()), %(text)s, log_bytes - %(bytes)s::bigint FROM attempt
), gone AS (
    DELETE FROM gpu_logs l USING attempt a
    WHERE l.job = a.job AND l.attempt = a.attempt AND l.number > a.log_head AND l.number < coalesce((
        SELECT number FROM gpu_logs k
        WHERE k.job = a.job AND k.number > a.log_head
            AND k.start + octet_length(k.text) + 1 > a.log_bytes - %(tail)s::bigint
        ORDER BY number LIMIT 1), 9223372036854775807)
)
SELECT log_bytes FROM attempt
