CREATE TABLE customer (id INTEGER PRIMARY KEY, rep INTEGER, name TEXT);
CREATE INDEX customer_rep ON customer (rep);
CREATE TABLE invoice (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL REFERENCES customer (id) ON DELETE CASCADE, note TEXT);
CREATE TABLE line (invoice INTEGER NOT NULL REFERENCES invoice (id), line INTEGER NOT NULL, what TEXT, PRIMARY KEY (invoice, line));
CREATE TABLE shop (region TEXT NOT NULL, id INTEGER NOT NULL, name TEXT, PRIMARY KEY (region, id));
CREATE TABLE device (id INTEGER PRIMARY KEY, remote TEXT, login TEXT);
CREATE TABLE member (person INTEGER NOT NULL, project TEXT NOT NULL, PRIMARY KEY (person, project));
CREATE TABLE task (id INTEGER PRIMARY KEY, project TEXT, what TEXT);
CREATE TABLE comment (id INTEGER PRIMARY KEY, task INTEGER, words TEXT);
CREATE TABLE offer (id INTEGER PRIMARY KEY, price INTEGER, name TEXT);
CREATE TABLE diary (id INTEGER PRIMARY KEY, login TEXT NOT NULL, words TEXT);
-- later
CREATE INDEX device_remote ON device (remote);
CREATE INDEX task_project ON task (project);
