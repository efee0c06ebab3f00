CREATE OR REPLACE FUNCTION syncline.syncline_truncated() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE syncline.syncline_logs
    SET incarnation = (random() * 9007199254740992)::bigint
    WHERE table_name = TG_ARGV[0];
    RETURN NULL;
END
$$
