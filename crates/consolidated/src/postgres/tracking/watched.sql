CREATE OR REPLACE FUNCTION syncline.syncline_watched() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        IF NEW.syncline_version IS DISTINCT FROM pg_current_xact_id() THEN
            UPDATE syncline.syncline_logs
            SET incarnation = (random() * 9007199254740992)::bigint,
                unstamped = pg_current_xact_id()
            WHERE table_name = TG_ARGV[0]
                AND unstamped IS DISTINCT FROM pg_current_xact_id();
        END IF;
    END IF;
    IF current_setting('session_replication_role') = 'replica' THEN
        UPDATE syncline.syncline_logs SET bypassed = pg_current_xact_id()
        WHERE table_name = TG_ARGV[0] AND bypassed IS DISTINCT FROM pg_current_xact_id();
    END IF;
    RETURN NULL;
END
$$
