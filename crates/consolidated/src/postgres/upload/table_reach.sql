SELECT coalesce(pg_partition_root(o.confrelid)::oid, o.confrelid)::int8,
    coalesce(pg_partition_root(o.conrelid)::oid, o.conrelid)::int8,
    pn.nspname::text, p.relname::text, p.relkind = 'p',
    cn.nspname::text, c.relname::text, c.relkind = 'p',
    ARRAY(SELECT a.attname::text FROM unnest(o.conkey) WITH ORDINALITY AS k(num, at)
          JOIN pg_attribute AS a ON a.attrelid = o.conrelid AND a.attnum = k.num ORDER BY k.at),
    ARRAY(SELECT a.attname::text FROM unnest(o.confkey) WITH ORDINALITY AS k(num, at)
          JOIN pg_attribute AS a ON a.attrelid = o.confrelid AND a.attnum = k.num ORDER BY k.at),
    ARRAY(SELECT format('OPERATOR(%I.%s)', n.nspname, e.oprname)
          FROM unnest(o.conpfeqop) WITH ORDINALITY AS k(operator, at)
          JOIN pg_operator AS e ON e.oid = k.operator
          JOIN pg_namespace AS n ON n.oid = e.oprnamespace ORDER BY k.at),
    o.confdeltype::text, o.confupdtype::text,
    ARRAY(SELECT a.attname::text FROM pg_attribute AS a
          WHERE a.attrelid = o.conrelid AND a.attnum = ANY (coalesce((
              SELECT array_agg(s.num::int2) FROM jsonb_array_elements_text(
                  CASE jsonb_typeof(to_jsonb(o) -> 'confdelsetcols')
                  WHEN 'array' THEN to_jsonb(o) -> 'confdelsetcols' ELSE '[]' END) AS s(num)
          ), o.conkey))),
    ARRAY(SELECT a.attname::text
          FROM pg_index AS i CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k(num, at)
          JOIN pg_attribute AS a ON a.attrelid = o.conrelid AND a.attnum = k.num
          WHERE i.indrelid = o.conrelid AND i.indisprimary AND k.at <= i.indnkeyatts
          ORDER BY k.at)
FROM pg_constraint AS o
JOIN pg_class AS p ON p.oid = o.confrelid JOIN pg_namespace AS pn ON pn.oid = p.relnamespace
JOIN pg_class AS c ON c.oid = o.conrelid JOIN pg_namespace AS cn ON cn.oid = c.relnamespace
WHERE o.contype = 'f' AND o.conparentid = 0
    AND (o.confdeltype IN ('c', 'n', 'd') OR o.confupdtype IN ('c', 'n', 'd'))
    AND has_table_privilege(o.conrelid, 'SELECT') AND has_table_privilege(o.confrelid, 'SELECT')
ORDER BY o.oid
