-- Who may do what, what they did, and what the API must remember between two requests.

-- +goose Up

CREATE TABLE users (
    id               TEXT PRIMARY KEY NOT NULL,
    name             TEXT NOT NULL UNIQUE, -- in lower case
    source           TEXT NOT NULL, -- local, oidc, tailnet
    subject          TEXT NOT NULL, -- the identity at that source; empty for local
    password_hash    TEXT NOT NULL, -- argon2id; empty for others
    disabled         BOOLEAN NOT NULL,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL,
    last_sign_in_at  BIGINT NOT NULL
);
CREATE UNIQUE INDEX users_subject ON users (source, subject) WHERE subject <> '';

-- A grant gives a role over the whole fleet, one installation or one pool, to a user or an API token.
CREATE TABLE grants (
    holder_id  TEXT NOT NULL,
    role       TEXT NOT NULL,
    scope_kind TEXT NOT NULL CHECK (scope_kind IN ('fleet', 'installation', 'pool')),
    scope_id   TEXT NOT NULL,
    PRIMARY KEY (holder_id, scope_kind, scope_id)
);
CREATE INDEX grants_scope ON grants (scope_id) WHERE scope_id <> '';

CREATE TABLE sessions (
    id           TEXT PRIMARY KEY NOT NULL,
    hash         TEXT NOT NULL UNIQUE, -- SHA-256 of the cookie's value
    user_id      TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    address      TEXT NOT NULL,
    agent        TEXT NOT NULL, -- what the browser calls itself
    created_at   BIGINT NOT NULL,
    last_seen_at BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL
);
CREATE INDEX sessions_user ON sessions (user_id);
CREATE INDEX sessions_expires ON sessions (expires_at);

CREATE TABLE api_tokens (
    id           TEXT PRIMARY KEY NOT NULL,
    name         TEXT NOT NULL UNIQUE,
    hash         TEXT NOT NULL UNIQUE, -- SHA-256
    user_id      TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE, -- whose it is; it can never do more than they
    scopes       TEXT NOT NULL,
    expires_at   BIGINT NOT NULL, -- 0 for never
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL
);
CREATE INDEX api_tokens_user ON api_tokens (user_id);

-- Each row's hash covers the row and the hash before it. The head says how many there must be.
CREATE TABLE audit (
    seq         BIGINT PRIMARY KEY NOT NULL,
    at          BIGINT NOT NULL,
    actor_kind  TEXT NOT NULL,
    actor_id    TEXT NOT NULL,
    actor_name  TEXT NOT NULL,
    via         TEXT NOT NULL, -- the session or API token
    address     TEXT NOT NULL,
    request_id  TEXT NOT NULL,
    action      TEXT NOT NULL,
    object_kind TEXT NOT NULL,
    object_id   TEXT NOT NULL,
    object_name TEXT NOT NULL,
    before      TEXT NOT NULL,
    after       TEXT NOT NULL,
    prev_hash   TEXT NOT NULL,
    hash        TEXT NOT NULL
);
CREATE INDEX audit_object ON audit (object_id, seq);
CREATE INDEX audit_actor ON audit (actor_id, seq);
CREATE INDEX audit_kind ON audit (object_kind, seq);
CREATE INDEX audit_action ON audit (action, seq);
CREATE INDEX audit_at ON audit (at);

CREATE TABLE audit_head (
    id   BIGINT PRIMARY KEY NOT NULL CHECK (id = 1),
    seq  BIGINT NOT NULL,
    hash TEXT NOT NULL
);

CREATE TABLE dismissals (
    user_id    TEXT NOT NULL,
    code       TEXT NOT NULL,
    subject    TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, code, subject)
);

CREATE TABLE idempotency (
    id           TEXT PRIMARY KEY NOT NULL, -- hash of who asked and of their key
    request_hash TEXT NOT NULL,
    object_id    TEXT NOT NULL,
    status       BIGINT NOT NULL, -- 0 until the answer is known
    answer       TEXT NOT NULL, -- sealed
    created_at   BIGINT NOT NULL
);
CREATE INDEX idempotency_created ON idempotency (created_at);

-- Apps that were made through the manifest flow. An installation of one takes over its keys.
CREATE TABLE github_apps (
    id             TEXT PRIMARY KEY NOT NULL,
    base_url       TEXT NOT NULL,
    app_id         BIGINT NOT NULL,
    slug           TEXT NOT NULL,
    name           TEXT NOT NULL,
    owner          TEXT NOT NULL,
    html_url       TEXT NOT NULL,
    private_key    TEXT NOT NULL, -- sealed
    webhook_secret TEXT NOT NULL, -- sealed
    created_at     BIGINT NOT NULL,
    UNIQUE (base_url, app_id)
);

-- A paused pool starts no runner; those that run go on. A draining host takes none and empties.
ALTER TABLE pools ADD COLUMN paused_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE pools ADD COLUMN pause_reason TEXT NOT NULL DEFAULT '';
ALTER TABLE hosts ADD COLUMN draining BOOLEAN NOT NULL DEFAULT FALSE;

-- Lists that are read page by page, newest first.
CREATE INDEX jobs_seen ON jobs (seen_at, id);
