-- What the statement after it sees of the job stays so until the transaction ends.
SELECT FROM gpu_jobs WHERE id = %(id)s::uuid FOR UPDATE
