-- Written for this test, with the names and the traits of Vaultwarden: keys of text that hold a
-- UUID, composite keys, tables of nothing but their key, BLOBs, moments as DATETIME, foreign keys
-- nearly everywhere, and the table of the migrations.
BEGIN;
CREATE TABLE __diesel_schema_migrations (
    version VARCHAR(50) PRIMARY KEY NOT NULL,
    run_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE users (
    uuid TEXT NOT NULL PRIMARY KEY,
    created_at DATETIME NOT NULL,
    email TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    password_hash BLOB NOT NULL,
    salt BLOB NOT NULL,
    password_iterations INTEGER NOT NULL,
    enabled BOOLEAN NOT NULL DEFAULT 1,
    akey TEXT NOT NULL DEFAULT '',
    private_key TEXT
);
CREATE TABLE devices (
    uuid TEXT NOT NULL,
    user_uuid TEXT NOT NULL,
    updated_at DATETIME NOT NULL,
    name TEXT NOT NULL,
    atype INTEGER NOT NULL,
    push_token TEXT,
    refresh_token TEXT NOT NULL,
    PRIMARY KEY (uuid, user_uuid),
    FOREIGN KEY (user_uuid) REFERENCES users (uuid)
);
CREATE TABLE organizations (
    uuid VARCHAR(40) NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    billing_email TEXT NOT NULL
);
CREATE TABLE ciphers (
    uuid TEXT NOT NULL PRIMARY KEY,
    created_at DATETIME NOT NULL,
    updated_at DATETIME NOT NULL,
    user_uuid TEXT REFERENCES users (uuid),
    organization_uuid TEXT REFERENCES organizations (uuid),
    key TEXT,
    atype INTEGER NOT NULL,
    name TEXT NOT NULL,
    data TEXT NOT NULL,
    deleted_at DATETIME
);
CREATE TABLE attachments (
    id TEXT NOT NULL PRIMARY KEY,
    cipher_uuid TEXT NOT NULL REFERENCES ciphers (uuid),
    file_name TEXT NOT NULL,
    file_size INTEGER NOT NULL
);
CREATE TABLE folders (
    uuid TEXT NOT NULL PRIMARY KEY,
    updated_at DATETIME NOT NULL,
    user_uuid TEXT NOT NULL REFERENCES users (uuid),
    name TEXT NOT NULL
);
CREATE TABLE folders_ciphers (
    cipher_uuid TEXT NOT NULL REFERENCES ciphers (uuid),
    folder_uuid TEXT NOT NULL REFERENCES folders (uuid),
    PRIMARY KEY (cipher_uuid, folder_uuid)
);
CREATE TABLE favorites (
    user_uuid TEXT NOT NULL REFERENCES users (uuid),
    cipher_uuid TEXT NOT NULL REFERENCES ciphers (uuid),
    PRIMARY KEY (user_uuid, cipher_uuid)
);
CREATE TABLE collections (
    uuid TEXT NOT NULL PRIMARY KEY,
    org_uuid TEXT NOT NULL REFERENCES organizations (uuid),
    name TEXT NOT NULL,
    external_id TEXT
);
CREATE TABLE ciphers_collections (
    cipher_uuid TEXT NOT NULL REFERENCES ciphers (uuid),
    collection_uuid TEXT NOT NULL REFERENCES collections (uuid),
    PRIMARY KEY (cipher_uuid, collection_uuid)
);
CREATE TABLE users_collections (
    user_uuid TEXT NOT NULL REFERENCES users (uuid),
    collection_uuid TEXT NOT NULL REFERENCES collections (uuid),
    read_only BOOLEAN NOT NULL DEFAULT 0,
    manage BOOLEAN NOT NULL DEFAULT 0,
    PRIMARY KEY (user_uuid, collection_uuid)
);
CREATE TABLE users_organizations (
    uuid TEXT NOT NULL PRIMARY KEY,
    user_uuid TEXT NOT NULL REFERENCES users (uuid),
    org_uuid TEXT NOT NULL REFERENCES organizations (uuid),
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
    event_date DATETIME NOT NULL,
    UNIQUE (uuid)
);
CREATE TABLE invitations (email TEXT NOT NULL PRIMARY KEY);
CREATE TABLE org_policies (
    uuid TEXT NOT NULL PRIMARY KEY,
    org_uuid TEXT NOT NULL REFERENCES organizations (uuid),
    atype INTEGER NOT NULL,
    data TEXT NOT NULL,
    UNIQUE (org_uuid, atype)
);
CREATE TABLE sends (
    uuid TEXT NOT NULL PRIMARY KEY,
    user_uuid TEXT REFERENCES users (uuid),
    data TEXT NOT NULL,
    password_hash BLOB,
    deletion_date DATETIME NOT NULL,
    hide_email BOOLEAN
);
CREATE TABLE twofactor (
    uuid TEXT NOT NULL PRIMARY KEY,
    user_uuid TEXT NOT NULL REFERENCES users (uuid),
    atype INTEGER NOT NULL,
    data TEXT NOT NULL,
    last_used INTEGER NOT NULL DEFAULT 0,
    UNIQUE (user_uuid, atype)
);
CREATE TABLE twofactor_incomplete (
    user_uuid TEXT NOT NULL REFERENCES users (uuid),
    device_uuid TEXT NOT NULL,
    login_time DATETIME NOT NULL,
    PRIMARY KEY (user_uuid, device_uuid)
);
COMMIT;
