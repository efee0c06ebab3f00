CREATE TABLE "Odd ""name"" it's" ("the key" TEXT, "select" INTEGER NOT NULL DEFAULT 7, "a b" BLOB,
    "grün" TEXT COLLATE NOCASE, PRIMARY KEY ("the key", "select")) WITHOUT ROWID;
CREATE TABLE "order" (id INTEGER PRIMARY KEY, "group" TEXT, "when" TEXT NOT NULL DEFAULT (datetime('now')));
CREATE INDEX "order by group" ON "order" ("group");
CREATE TABLE Mixed (Id INTEGER PRIMARY KEY, "order" INTEGER REFERENCES "order", Word TEXT UNIQUE) STRICT;
CREATE TABLE "a.b" ("a.b" TEXT PRIMARY KEY NOT NULL, "semi;colon" REAL);
-- later
ALTER TABLE "order" RENAME COLUMN "group" TO "new group";
ALTER TABLE "a.b" ADD COLUMN "ä" INTEGER DEFAULT 1;
