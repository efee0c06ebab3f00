-- Written for this test, with the names and the traits of Synapse: tables without a primary key but
-- with UNIQUE indexes, stream positions in BIGINT, BLOBs, JSON in text, partial indexes, indexes
-- over expressions, a virtual table for full text, and foreign keys that wait.
BEGIN;
CREATE TABLE schema_version (
    Lock CHAR(1) NOT NULL DEFAULT 'X' UNIQUE CHECK (Lock = 'X'),
    version INTEGER NOT NULL,
    upgraded BOOL NOT NULL
);
CREATE TABLE users (
    name TEXT,
    password_hash TEXT,
    creation_ts BIGINT,
    admin SMALLINT DEFAULT 0 NOT NULL,
    is_guest SMALLINT DEFAULT 0 NOT NULL,
    UNIQUE (name)
);
CREATE INDEX users_creation_ts ON users (creation_ts);
CREATE TABLE profiles (user_id TEXT NOT NULL UNIQUE, displayname TEXT, avatar_url TEXT);
CREATE TABLE access_tokens (
    id BIGINT PRIMARY KEY,
    user_id TEXT NOT NULL,
    device_id TEXT,
    token TEXT NOT NULL UNIQUE,
    used BOOLEAN,
    refresh_token_id BIGINT REFERENCES refresh_tokens (id) ON DELETE CASCADE
);
CREATE TABLE refresh_tokens (
    id BIGINT PRIMARY KEY,
    user_id TEXT NOT NULL,
    token TEXT NOT NULL UNIQUE,
    next_token_id BIGINT REFERENCES refresh_tokens (id) ON DELETE CASCADE
);
CREATE TABLE devices (
    user_id TEXT NOT NULL,
    device_id TEXT NOT NULL,
    display_name TEXT,
    CONSTRAINT device_uniqueness UNIQUE (user_id, device_id)
);
CREATE TABLE events (
    stream_ordering INTEGER PRIMARY KEY,
    topological_ordering BIGINT NOT NULL,
    event_id TEXT NOT NULL UNIQUE,
    type TEXT NOT NULL,
    room_id TEXT NOT NULL,
    contains_url BOOLEAN,
    state_key TEXT
);
CREATE INDEX events_room_stream ON events (room_id, stream_ordering) WHERE contains_url = 1;
CREATE TABLE event_json (
    event_id TEXT NOT NULL UNIQUE,
    room_id TEXT NOT NULL,
    json TEXT NOT NULL
);
CREATE VIRTUAL TABLE event_search USING fts4 (event_id, room_id, sender, key, value);
CREATE TABLE rooms (room_id TEXT PRIMARY KEY NOT NULL, is_public BOOL, creator TEXT);
CREATE TABLE room_depth (room_id TEXT PRIMARY KEY NOT NULL, min_depth BIGINT);
CREATE TABLE partial_state_rooms (
    room_id TEXT PRIMARY KEY NOT NULL REFERENCES rooms (room_id),
    device_lists_stream_id BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE state_groups (
    id BIGINT PRIMARY KEY,
    room_id TEXT NOT NULL,
    event_id TEXT NOT NULL
);
CREATE TABLE server_signature_keys (
    server_name TEXT,
    key_id TEXT,
    ts_valid_until_ms BIGINT,
    verify_key bytea,
    UNIQUE (server_name, key_id)
);
CREATE TABLE event_reports (
    id BIGINT NOT NULL PRIMARY KEY,
    received_ts BIGINT NOT NULL,
    reason TEXT
);
CREATE TABLE ui_auth_sessions (
    session_id TEXT NOT NULL PRIMARY KEY,
    creation_time BIGINT NOT NULL,
    serverdict TEXT NOT NULL
);
CREATE TABLE ui_auth_sessions_credentials (
    session_id TEXT NOT NULL REFERENCES ui_auth_sessions (session_id),
    stage_type TEXT NOT NULL,
    result TEXT NOT NULL,
    UNIQUE (session_id, stage_type)
);
CREATE TABLE scheduled_tasks (
    id TEXT PRIMARY KEY NOT NULL,
    status TEXT NOT NULL,
    timestamp BIGINT NOT NULL,
    params TEXT
);
CREATE TABLE threepids (
    rowid INTEGER PRIMARY KEY AUTOINCREMENT,
    medium TEXT NOT NULL,
    address TEXT NOT NULL
);
CREATE UNIQUE INDEX threepids_address ON threepids (medium, lower(address));
CREATE TABLE sliding_sync_connections (
    connection_key INTEGER PRIMARY KEY,
    user_id TEXT NOT NULL,
    created_ts BIGINT NOT NULL
);
CREATE TABLE sliding_sync_positions (
    position INTEGER PRIMARY KEY,
    connection_key BIGINT NOT NULL REFERENCES sliding_sync_connections (connection_key)
        ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    created_ts BIGINT NOT NULL
);
COMMIT;
