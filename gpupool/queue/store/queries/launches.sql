-- Everything that an executor holds.
SELECT * FROM gpu_jobs WHERE state IN ('dispatching', 'running') AND executor = %(executor)s
