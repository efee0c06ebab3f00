SELECT 'COLUMN' AS kind, '"' || replace(n.nspname, '"', '""') || '"."' || replace(c.relname, '"', '""') || '"' AS table_name, a.attname::text AS name,
       coalesce(pg_get_expr(d.adbin, d.adrelid), '') AS definition
FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attname = 'syncline_version' AND a.atttypid = 'xid8'::regtype AND NOT a.attisdropped AND c.relkind IN ('r', 'p') AND a.attinhcount = 0 AND n.nspname <> 'syncline'
UNION ALL
SELECT 'TRIGGER', '"' || replace(n.nspname, '"', '""') || '"."' || replace(c.relname, '"', '""') || '"', t.tgname::text,
       pg_get_triggerdef(t.oid) || CASE t.tgenabled WHEN 'A' THEN '' WHEN 'R' THEN ' -- for replicas' ELSE ' -- not enabled always' END
FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_proc AS p ON p.oid = t.tgfoid
WHERE p.pronamespace = to_regnamespace('syncline') AND NOT t.tgisinternal AND t.tgparentid = 0
UNION ALL
SELECT 'INDEX', '"' || replace(n.nspname, '"', '""') || '"."' || replace(c.relname, '"', '""') || '"', x.relname::text,
       pg_get_indexdef(i.indexrelid) || CASE WHEN i.indisvalid THEN '' ELSE ' -- not valid' END
FROM pg_index AS i JOIN pg_class AS x ON x.oid = i.indexrelid JOIN pg_class AS c ON c.oid = i.indrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE x.relname LIKE 'syncline\_version\_%' AND i.indnatts = 1 AND a.attname = 'syncline_version' AND a.atttypid = 'xid8'::regtype AND n.nspname <> 'syncline'
UNION ALL
SELECT 'FUNCTION', '', p.proname::text, pg_get_functiondef(p.oid)
FROM pg_proc AS p WHERE p.pronamespace = to_regnamespace('syncline') AND p.proname LIKE 'syncline\_%' AND p.prorettype = 'trigger'::regtype
UNION ALL
SELECT 'TABLE', '', c.relname::text, (
    SELECT string_agg(a.attname || ' ' || tn.nspname || '.' || t.typname || ' ' || a.atttypmod || ' ' || a.attcollation, ', ' ORDER BY a.attnum)
    FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid JOIN pg_namespace AS tn ON tn.oid = t.typnamespace
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
FROM pg_class AS c WHERE c.relnamespace = to_regnamespace('syncline') AND c.relkind = 'r' AND c.relname LIKE 'syncline\_gone\_%'
