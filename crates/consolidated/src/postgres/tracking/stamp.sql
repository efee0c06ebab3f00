CREATE OR REPLACE FUNCTION syncline.syncline_stamp() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
    NEW.syncline_version := pg_catalog.pg_current_xact_id();
    RETURN NEW;
END
$$
