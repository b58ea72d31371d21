-- Where the last chunks of the output begin: `lines` at most, as each has a line or more, and the first of them
-- with which their text comes to more than so many bytes.
SELECT min(number) AS number FROM (
    SELECT number, sum(octet_length(text)) OVER (
        ORDER BY number DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes
    FROM (
        SELECT * FROM gpu_logs WHERE job = %(job)s::uuid AND number > %(after)s
            AND (%(attempt)s::int IS NULL OR attempt = %(attempt)s::int)
        ORDER BY number DESC LIMIT %(lines)s
    ) last
) counted
WHERE bytes IS NULL OR bytes < %(bytes)s
