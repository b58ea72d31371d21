-- What attempts hold, added to the accounts in order of their names.
INSERT INTO gpu_accounts AS a (scope, name, period, held_micro)
SELECT scope, name, period, sum(micro)
FROM (
    SELECT 'tenant' AS scope, l.tenant AS name, l.period_tenant AS period, l.micro
    FROM gpu_ledger l JOIN unnest(%(ids)s::uuid[], %(attempts)s::int[]) AS g (job, attempt) USING (job, attempt)
    WHERE l.kind = 'hold'
    UNION ALL
    SELECT 'project', l.tenant || '/' || l.project, l.period_project, l.micro
    FROM gpu_ledger l JOIN unnest(%(ids)s::uuid[], %(attempts)s::int[]) AS g (job, attempt) USING (job, attempt)
    WHERE l.kind = 'hold' AND l.project IS NOT NULL
) entries
GROUP BY scope, name, period
ORDER BY scope, name, period
ON CONFLICT (scope, name, period) DO UPDATE SET held_micro = a.held_micro + excluded.held_micro
