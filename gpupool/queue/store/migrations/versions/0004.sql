-- Which database this is to the cluster that its jobs run on, and how it stands with that cluster. One row.
CREATE TABLE gpu_identity (
    single boolean PRIMARY KEY DEFAULT true CONSTRAINT one_row CHECK (single),
    -- On the Jobs and pods of this database.
    database uuid NOT NULL DEFAULT gen_random_uuid(),
    -- The latest that this database has written into the cluster's Lease. It changes all the time, so that a copy
    -- of the database, or an older state of it, does not have the one that is there.
    mark uuid NOT NULL DEFAULT gen_random_uuid(),
    -- uid of that Lease, and since when it is this one: jobs that were decided before may be on another cluster.
    lease text,
    lease_since timestamptz,
    -- Whose cluster an administrator lets this database take over, as `trouble` names it.
    take_over text,
    -- Why nothing is done on the cluster at present.
    trouble jsonb
);

INSERT INTO gpu_identity DEFAULT VALUES;
