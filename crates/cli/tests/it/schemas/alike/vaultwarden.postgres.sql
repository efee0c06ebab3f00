-- Written for this test, with the names and the traits of Vaultwarden: keys of text that hold a
-- UUID, in char(36) and varchar(40), composite keys, tables of nothing but their key, bytes, moments
-- without a zone, foreign keys nearly everywhere, and the table of the migrations.
BEGIN;
CREATE TABLE __diesel_schema_migrations (
    version VARCHAR(50) PRIMARY KEY NOT NULL,
    run_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE users (
    uuid CHAR(36) NOT NULL PRIMARY KEY,
    created_at TIMESTAMP NOT NULL,
    email TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    password_hash BYTEA NOT NULL,
    salt BYTEA NOT NULL,
    password_iterations INTEGER NOT NULL,
    enabled BOOLEAN NOT NULL DEFAULT true,
    akey TEXT NOT NULL DEFAULT '',
    private_key TEXT
);
CREATE TABLE devices (
    uuid TEXT NOT NULL,
    user_uuid VARCHAR(40) NOT NULL,
    updated_at TIMESTAMP NOT NULL,
    name TEXT NOT NULL,
    atype INTEGER NOT NULL,
    push_token TEXT,
    refresh_token TEXT NOT NULL,
    PRIMARY KEY (uuid, user_uuid),
    FOREIGN KEY (user_uuid) REFERENCES users (uuid)
);
CREATE TABLE organizations (
    uuid CHAR(36) NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    billing_email TEXT NOT NULL
);
CREATE TABLE ciphers (
    uuid CHAR(36) NOT NULL PRIMARY KEY,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL,
    user_uuid VARCHAR(40) REFERENCES users (uuid),
    organization_uuid VARCHAR(40) REFERENCES organizations (uuid),
    key TEXT,
    atype INTEGER NOT NULL,
    name TEXT NOT NULL,
    data TEXT NOT NULL,
    deleted_at TIMESTAMP
);
CREATE TABLE attachments (
    id TEXT NOT NULL PRIMARY KEY,
    cipher_uuid VARCHAR(40) NOT NULL REFERENCES ciphers (uuid),
    file_name TEXT NOT NULL,
    file_size INTEGER NOT NULL
);
CREATE TABLE folders (
    uuid CHAR(36) NOT NULL PRIMARY KEY,
    updated_at TIMESTAMP NOT NULL,
    user_uuid VARCHAR(40) NOT NULL REFERENCES users (uuid),
    name TEXT NOT NULL
);
CREATE TABLE folders_ciphers (
    cipher_uuid VARCHAR(40) NOT NULL REFERENCES ciphers (uuid),
    folder_uuid VARCHAR(40) NOT NULL REFERENCES folders (uuid),
    PRIMARY KEY (cipher_uuid, folder_uuid)
);
CREATE TABLE favorites (
    user_uuid VARCHAR(40) NOT NULL REFERENCES users (uuid),
    cipher_uuid VARCHAR(40) NOT NULL REFERENCES ciphers (uuid),
    PRIMARY KEY (user_uuid, cipher_uuid)
);
CREATE TABLE collections (
    uuid CHAR(36) NOT NULL PRIMARY KEY,
    org_uuid VARCHAR(40) NOT NULL REFERENCES organizations (uuid),
    name TEXT NOT NULL,
    external_id TEXT
);
CREATE TABLE ciphers_collections (
    cipher_uuid VARCHAR(40) NOT NULL REFERENCES ciphers (uuid),
    collection_uuid VARCHAR(40) NOT NULL REFERENCES collections (uuid),
    PRIMARY KEY (cipher_uuid, collection_uuid)
);
CREATE TABLE users_collections (
    user_uuid VARCHAR(40) NOT NULL REFERENCES users (uuid),
    collection_uuid VARCHAR(40) NOT NULL REFERENCES collections (uuid),
    read_only BOOLEAN NOT NULL DEFAULT false,
    manage BOOLEAN NOT NULL DEFAULT false,
    PRIMARY KEY (user_uuid, collection_uuid)
);
CREATE TABLE users_organizations (
    uuid CHAR(36) NOT NULL PRIMARY KEY,
    user_uuid VARCHAR(40) NOT NULL REFERENCES users (uuid),
    org_uuid VARCHAR(40) NOT NULL REFERENCES organizations (uuid),
    akey TEXT NOT NULL,
    status INTEGER NOT NULL,
    UNIQUE (user_uuid, org_uuid)
);
CREATE TABLE groups (
    uuid CHAR(36) NOT NULL PRIMARY KEY,
    organizations_uuid VARCHAR(40) NOT NULL REFERENCES organizations (uuid),
    name VARCHAR(100) NOT NULL,
    creation_date TIMESTAMP NOT NULL
);
CREATE TABLE groups_users (
    groups_uuid CHAR(36) NOT NULL REFERENCES groups (uuid),
    users_organizations_uuid VARCHAR(36) NOT NULL REFERENCES users_organizations (uuid),
    UNIQUE (groups_uuid, users_organizations_uuid)
);
CREATE TABLE event (
    uuid CHAR(36) NOT NULL PRIMARY KEY,
    event_type INTEGER NOT NULL,
    user_uuid CHAR(36),
    ip_address TEXT,
    event_date TIMESTAMP NOT NULL,
    CONSTRAINT event_uuid UNIQUE (uuid)
);
CREATE TABLE invitations (email TEXT NOT NULL PRIMARY KEY);
CREATE TABLE org_policies (
    uuid CHAR(36) NOT NULL PRIMARY KEY,
    org_uuid VARCHAR(40) NOT NULL REFERENCES organizations (uuid),
    atype INTEGER NOT NULL,
    data TEXT NOT NULL,
    UNIQUE (org_uuid, atype)
);
CREATE TABLE sends (
    uuid CHAR(36) NOT NULL PRIMARY KEY,
    user_uuid VARCHAR(40) REFERENCES users (uuid),
    data TEXT NOT NULL,
    password_hash BYTEA,
    deletion_date TIMESTAMP NOT NULL,
    hide_email BOOLEAN
);
CREATE TABLE twofactor (
    uuid CHAR(36) NOT NULL PRIMARY KEY,
    user_uuid VARCHAR(40) NOT NULL REFERENCES users (uuid),
    atype INTEGER NOT NULL,
    data TEXT NOT NULL,
    last_used INTEGER NOT NULL DEFAULT 0,
    UNIQUE (user_uuid, atype)
);
CREATE TABLE twofactor_incomplete (
    user_uuid VARCHAR(40) NOT NULL REFERENCES users (uuid),
    device_uuid VARCHAR(40) NOT NULL,
    login_time TIMESTAMP NOT NULL,
    PRIMARY KEY (user_uuid, device_uuid)
);
COMMIT;
