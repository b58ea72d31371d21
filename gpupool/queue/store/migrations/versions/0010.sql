-- Attempts may be on reserved nodes.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['gpu_jobs', 'gpu_attempts'] LOOP
        EXECUTE format('ALTER TABLE %1$I DROP CONSTRAINT %1$s_capacity_type_check,
            ADD CONSTRAINT %1$s_capacity_type_check CHECK (capacity_type IN (''reserved'', ''spot'', ''on-demand''))', name);
    END LOOP;
END $$;
