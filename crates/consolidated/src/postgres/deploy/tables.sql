WITH RECURSIVE base(domain, oid, typmod, not_null) AS (
    SELECT oid, typbasetype, typtypmod, typnotnull FROM pg_type WHERE typtype = 'd'
    UNION ALL
    SELECT b.domain, t.typbasetype, t.typtypmod, b.not_null OR t.typnotnull
    FROM base AS b JOIN pg_type AS t ON t.oid = b.oid AND t.typtype = 'd'
),
domain AS (
    SELECT b.domain, b.oid, b.typmod, b.not_null
    FROM base AS b JOIN pg_type AS t ON t.oid = b.oid AND t.typtype <> 'd'
)
SELECT json_build_object(
    'schema', n.nspname,
    'name', c.relname,
    'kind', c.relkind,
    'bytes', CASE WHEN c.relkind = 'r' THEN pg_relation_size(c.oid) ELSE 0 END,
    'unlogged', c.relpersistence <> 'p',
    'path_position', array_position({path}::name[], n.nspname),
    'of_extension', EXISTS (
        SELECT FROM pg_depend AS d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'),
    'inherits', EXISTS (
        SELECT FROM pg_inherits AS i WHERE i.inhrelid = c.oid OR i.inhparent = c.oid),
    'rules', EXISTS (SELECT FROM pg_rewrite AS r WHERE r.ev_class = c.oid),
    'row_security', c.relrowsecurity,
    'triggers', (
        SELECT coalesce(json_agg(t.tgname ORDER BY t.tgname), '[]') FROM pg_trigger AS t
        JOIN pg_proc AS p ON p.oid = t.tgfoid
        WHERE t.tgrelid = c.oid AND NOT t.tgisinternal
          AND p.pronamespace IS DISTINCT FROM to_regnamespace('syncline')),
    'columns', (
        SELECT coalesce(json_agg(json_build_object(
            'name', a.attname,
            'base_type', format_type(b.oid, coalesce(d.typmod, a.atttypmod)),
            'cast', format_type(b.oid, -1),
            'oid', b.oid::bigint,
            'typmod', coalesce(d.typmod, a.atttypmod),
            'domain', d.oid IS NOT NULL,
            'kind', b.typtype,
            'array', b.typcategory = 'A',
            'not_null', a.attnotnull OR coalesce(d.not_null, false),
            'default', CASE WHEN a.attgenerated = '' THEN pg_get_expr(f.adbin, f.adrelid) END,
            'generated', a.attgenerated <> '',
            'identity', a.attidentity,
            'collation', CASE WHEN l.collname <> 'default'
                THEN quote_ident(m.nspname) || '.' || quote_ident(l.collname) END,
            'loose', NOT coalesce(l.collisdeterministic, true),
            'ambiguous', CASE WHEN EXISTS (
                SELECT FROM pg_index AS i
                WHERE i.indrelid = c.oid AND i.indisunique AND a.attnum = ANY (i.indkey::int2[])
            ) OR EXISTS (
                SELECT FROM pg_constraint AS o
                WHERE o.conrelid = c.oid AND o.contype = 'f' AND a.attnum = ANY (o.conkey)
            ) THEN (
                -- What a value is made of, down to types that are made of nothing.
                WITH RECURSIVE part(oid, typmod, collated, whole) AS (
                    SELECT a.atttypid, a.atttypmod, a.attcollation, true
                    UNION
                    SELECT below.* FROM part JOIN pg_type AS t ON t.oid = part.oid
                    CROSS JOIN LATERAL (
                        SELECT t.typbasetype, t.typtypmod, part.collated, part.whole
                        WHERE t.typtype = 'd'
                        UNION ALL
                        SELECT t.typelem, part.typmod, part.collated, false
                        WHERE t.typcategory = 'A' AND t.typelem <> 0
                        UNION ALL
                        SELECT r.rngsubtype, -1, r.rngcollation, false
                        FROM pg_range AS r WHERE r.rngtypid = t.oid
                        UNION ALL
                        SELECT r.rngtypid, -1, 0::oid, false
                        FROM pg_range AS r
                        WHERE t.typtype = 'm' AND to_jsonb(r) ->> 'rngmultitypid' = t.oid::text
                    ) AS below
                )
                SELECT min(reason) FROM part JOIN pg_type AS t ON t.oid = part.oid
                LEFT JOIN pg_collation AS pl ON pl.oid = part.collated
                CROSS JOIN LATERAL (SELECT CASE
                    WHEN NOT pl.collisdeterministic
                        THEN 'its collation treats different texts as equal'
                    WHEN t.oid = 'numeric'::regtype AND part.typmod < 0
                        THEN 'numbers without a declared scale are equal with any zeros at the '
                            || 'end, as 1.0 and 1.00'
                    WHEN t.oid = 'interval'::regtype
                        THEN 'different intervals may be equal, as 24 hours and 1 day'
                    WHEN t.oid = 'jsonb'::regtype
                        THEN 'different jsonb values may be equal, as 1.0 and 1.00'
                    WHEN t.oid = 'money'::regtype
                        THEN 'a setting of the server decides how money is spelled'
                    WHEN t.oid IN ('float4'::regtype, 'float8'::regtype)
                        AND a.atttypid <> t.oid
                        THEN '0 and -0 are equal and spelled differently'
                    WHEN t.oid = 'bpchar'::regtype AND NOT part.whole
                        THEN 'blanks at the end of char have no meaning'
                    WHEN t.oid >= 16384 AND t.typtype = 'b' AND t.typcategory <> 'A'
                        AND NOT EXISTS (
                            SELECT FROM pg_opclass AS oc
                            JOIN pg_am AS am ON am.oid = oc.opcmethod AND am.amname = 'btree'
                            JOIN pg_amproc AS ap ON ap.amprocfamily = oc.opcfamily
                                AND ap.amprocnum = 4 AND ap.amproclefttype = t.oid
                                AND ap.amprocrighttype = t.oid
                            WHERE oc.opcdefault AND oc.opcintype = t.oid)
                        THEN 'different values of type ' || t.typname || ' may be equal'
                    END) AS said(reason)
            ) END
        ) ORDER BY a.attnum), '[]')
        FROM pg_attribute AS a
        LEFT JOIN domain AS d ON d.domain = a.atttypid
        JOIN pg_type AS b ON b.oid = coalesce(d.oid, a.atttypid)
        LEFT JOIN pg_attrdef AS f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
        LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
        LEFT JOIN pg_namespace AS m ON m.oid = l.collnamespace
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
          AND a.attname <> 'syncline_version'),
    'key', (
        SELECT json_agg(a.attname ORDER BY k.position)
        FROM pg_index AS i
        CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k(attnum, position)
        JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = k.attnum
        WHERE i.indrelid = c.oid AND i.indisprimary AND k.position <= i.indnkeyatts),
    'key_deferrable', coalesce(
        (SELECT NOT i.indimmediate FROM pg_index AS i
         WHERE i.indrelid = c.oid AND i.indisprimary), false),
    'indexes', (
        SELECT coalesce(json_agg(json_build_object(
            'name', x.relname,
            'unique', i.indisunique,
            'columns', (
                SELECT json_agg(a.attname ORDER BY k.position)
                FROM unnest(i.indkey) WITH ORDINALITY AS k(attnum, position)
                LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = k.attnum
                WHERE k.position <= i.indnkeyatts),
            'partial', i.indpred IS NOT NULL,
            'tree', m.amname = 'btree'
        ) ORDER BY x.relname), '[]')
        FROM pg_index AS i
        JOIN pg_class AS x ON x.oid = i.indexrelid
        JOIN pg_am AS m ON m.oid = x.relam
        WHERE i.indrelid = c.oid AND i.indisvalid AND NOT i.indisprimary
          AND x.relname NOT LIKE 'syncline\_%'),
    'foreign_keys', (
        SELECT coalesce(json_agg(json_build_object(
            'parent_schema', pn.nspname,
            'parent_table', p.relname,
            'columns', (
                SELECT json_agg(json_build_array(a.attname, b.attname) ORDER BY k.position)
                FROM unnest(o.conkey, o.confkey)
                    WITH ORDINALITY AS k(child, parent, position)
                JOIN pg_attribute AS a ON a.attrelid = o.conrelid AND a.attnum = k.child
                JOIN pg_attribute AS b ON b.attrelid = o.confrelid AND b.attnum = k.parent),
            'on_update', o.confupdtype,
            'on_delete', o.confdeltype,
            'inherited', o.conparentid <> 0
        ) ORDER BY o.conname), '[]')
        FROM pg_constraint AS o
        JOIN pg_class AS p ON p.oid = o.confrelid
        JOIN pg_namespace AS pn ON pn.oid = p.relnamespace
        WHERE o.conrelid = c.oid AND o.contype = 'f')
)::text
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'syncline')
  AND n.nspname NOT LIKE 'pg\_toast%' AND n.nspname NOT LIKE 'pg\_temp\_%'
