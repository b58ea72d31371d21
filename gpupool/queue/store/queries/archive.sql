WITH gone AS (
    DELETE FROM gpu_jobs WHERE id IN (
        SELECT id FROM gpu_jobs WHERE finished_at < %(before)s
        ORDER BY finished_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
    RETURNING *
)
INSERT INTO gpu_job_history SELECT * FROM gone
