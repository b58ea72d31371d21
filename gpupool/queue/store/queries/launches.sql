-- Everything that an executor holds.
SELECT * FROM gpu_jobs WHERE state IN ('scheduled', 'running') AND executor = %(executor)s
