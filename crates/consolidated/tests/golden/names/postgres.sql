CREATE SCHEMA "sales & co";
CREATE TABLE "Odd ""name"" it's" ("the key" text COLLATE "C", "select" integer NOT NULL DEFAULT 7, "a b" bytea,
    "grün" text, PRIMARY KEY ("the key", "select"));
CREATE TABLE "sales & co"."order" (id integer PRIMARY KEY, "group" text, "when" timestamptz NOT NULL DEFAULT now());
CREATE INDEX "order by group" ON "sales & co"."order" ("group");
CREATE TABLE "Mixed" ("Id" integer PRIMARY KEY, "order" integer REFERENCES "sales & co"."order", "Word" text UNIQUE);
CREATE TABLE "a.b" ("a.b" uuid PRIMARY KEY, "semi;colon" double precision);
CREATE TABLE "a name of sixty-three bytes, which is the most that PostgreSQL " (id bigint PRIMARY KEY, "dollar$" text);
-- later
ALTER TABLE "sales & co"."order" RENAME COLUMN "group" TO "new group";
ALTER TABLE "a.b" ADD COLUMN "ä" integer DEFAULT 1;
