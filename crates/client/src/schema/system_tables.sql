CREATE TABLE IF NOT EXISTS syncline_state (
  name  TEXT PRIMARY KEY,
  value
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS syncline_generation (
  id      INTEGER PRIMARY KEY CHECK (id = 1),
  current INTEGER NOT NULL
);
INSERT OR IGNORE INTO syncline_generation VALUES (1, 1);

CREATE TABLE IF NOT EXISTS syncline_table (
  position  INTEGER PRIMARY KEY,
  name      TEXT NOT NULL,
  published TEXT NOT NULL,
  watermark BLOB,
  created   INTEGER NOT NULL,
  large     TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS syncline_reject (
  table_name TEXT NOT NULL,
  key        TEXT NOT NULL,
  counter    INTEGER NOT NULL,
  code       INTEGER NOT NULL,
  message    TEXT NOT NULL,
  row        TEXT,
  at         TEXT NOT NULL,
  id         INTEGER,
  base       TEXT,
  PRIMARY KEY (table_name, key, counter)
) WITHOUT ROWID;
