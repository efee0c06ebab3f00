-- Written for this test, with the names and the traits of Synapse: tables without a primary key but
-- with UNIQUE indexes, stream positions in BIGINT, keys from BIGSERIAL and from sequences, bytea,
-- JSON in text, partial indexes, indexes over expressions, full text, and foreign keys that wait.
BEGIN;
CREATE SEQUENCE events_stream_seq;
CREATE SEQUENCE state_group_id_seq;
CREATE TABLE schema_version (
    lock character(1) DEFAULT 'X' NOT NULL UNIQUE CHECK (lock = 'X'),
    version integer NOT NULL,
    upgraded boolean NOT NULL
);
CREATE TABLE users (
    name text UNIQUE,
    password_hash text,
    creation_ts bigint,
    admin smallint DEFAULT 0 NOT NULL,
    is_guest smallint DEFAULT 0 NOT NULL,
    deactivated smallint DEFAULT 0 NOT NULL
);
CREATE INDEX users_creation_ts ON users (creation_ts);
CREATE TABLE profiles (
    user_id text NOT NULL UNIQUE,
    displayname text,
    full_user_id text,
    CONSTRAINT full_user_id_not_null CHECK (full_user_id IS NOT NULL)
);
CREATE TABLE access_tokens (
    id bigint NOT NULL PRIMARY KEY,
    user_id text NOT NULL,
    device_id text,
    token text NOT NULL UNIQUE,
    valid_until_ms bigint,
    used boolean,
    refresh_token_id bigint
);
CREATE TABLE refresh_tokens (
    id bigint NOT NULL PRIMARY KEY,
    user_id text NOT NULL,
    token text NOT NULL UNIQUE,
    next_token_id bigint REFERENCES refresh_tokens ON DELETE CASCADE
);
ALTER TABLE access_tokens ADD FOREIGN KEY (refresh_token_id) REFERENCES refresh_tokens
    ON DELETE CASCADE;
CREATE TABLE devices (
    user_id text NOT NULL,
    device_id text NOT NULL,
    display_name text,
    last_seen bigint,
    hidden boolean DEFAULT false,
    CONSTRAINT device_uniqueness UNIQUE (user_id, device_id)
);
CREATE TABLE events (
    stream_ordering bigint NOT NULL DEFAULT nextval('events_stream_seq'),
    topological_ordering bigint NOT NULL,
    event_id text NOT NULL UNIQUE,
    type text NOT NULL,
    room_id text NOT NULL,
    depth bigint DEFAULT 0 NOT NULL,
    contains_url boolean,
    state_key text
);
CREATE UNIQUE INDEX events_stream_ordering ON events (stream_ordering);
CREATE INDEX events_room_stream ON events (room_id, stream_ordering) WHERE contains_url = true;
CREATE TABLE event_json (
    event_id text NOT NULL UNIQUE,
    room_id text NOT NULL,
    json text NOT NULL,
    format_version integer
);
CREATE TABLE event_search (
    event_id text,
    room_id text,
    vector tsvector,
    origin_server_ts bigint
);
CREATE UNIQUE INDEX event_search_event_id ON event_search (event_id);
CREATE INDEX event_search_fts ON event_search USING gin (vector);
CREATE TABLE rooms (
    room_id text PRIMARY KEY NOT NULL,
    is_public boolean,
    creator text,
    room_version text
);
CREATE TABLE room_depth (room_id text PRIMARY KEY NOT NULL, min_depth bigint);
CREATE TABLE partial_state_rooms (
    room_id text PRIMARY KEY NOT NULL REFERENCES rooms,
    device_lists_stream_id bigint NOT NULL DEFAULT 0
);
CREATE TABLE partial_state_rooms_servers (
    room_id text NOT NULL REFERENCES partial_state_rooms,
    server_name text NOT NULL,
    UNIQUE (room_id, server_name)
);
CREATE TABLE state_groups (
    id bigint PRIMARY KEY NOT NULL DEFAULT nextval('state_group_id_seq'),
    room_id text NOT NULL,
    event_id text NOT NULL
);
CREATE TABLE server_signature_keys (
    server_name text,
    key_id text,
    ts_valid_until_ms bigint,
    verify_key bytea,
    UNIQUE (server_name, key_id)
);
CREATE TABLE e2e_cross_signing_keys (
    user_id text NOT NULL,
    keytype text NOT NULL,
    keydata text NOT NULL,
    stream_id bigint NOT NULL
);
CREATE UNIQUE INDEX e2e_cross_signing_keys_idx
    ON e2e_cross_signing_keys (user_id, keytype, stream_id);
CREATE TABLE event_reports (
    id bigint NOT NULL PRIMARY KEY,
    received_ts bigint NOT NULL,
    reason text,
    content text
);
CREATE TABLE registration_tokens (
    token text NOT NULL UNIQUE,
    uses_allowed integer,
    pending integer NOT NULL
);
CREATE TABLE ui_auth_sessions (
    session_id text NOT NULL PRIMARY KEY,
    creation_time bigint NOT NULL,
    serverdict text NOT NULL
);
CREATE TABLE ui_auth_sessions_credentials (
    session_id text NOT NULL REFERENCES ui_auth_sessions,
    stage_type text NOT NULL,
    result text NOT NULL,
    UNIQUE (session_id, stage_type)
);
CREATE TABLE scheduled_tasks (
    id text PRIMARY KEY NOT NULL,
    action text NOT NULL,
    status text NOT NULL,
    "timestamp" bigint NOT NULL,
    params text,
    result text
);
CREATE INDEX scheduled_tasks_status ON scheduled_tasks (status);
CREATE TABLE user_external_ids (
    auth_provider text NOT NULL,
    external_id text NOT NULL,
    user_id text NOT NULL,
    UNIQUE (auth_provider, external_id)
);
CREATE TABLE threepids (
    rowid bigserial PRIMARY KEY,
    medium text NOT NULL,
    address text NOT NULL
);
CREATE UNIQUE INDEX threepids_address ON threepids (medium, lower(address));
CREATE TABLE sliding_sync_connections (
    connection_key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id text NOT NULL,
    created_ts bigint NOT NULL
);
CREATE TABLE sliding_sync_positions (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    connection_key bigint NOT NULL
        REFERENCES sliding_sync_connections ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    created_ts bigint NOT NULL
);
COMMIT;
