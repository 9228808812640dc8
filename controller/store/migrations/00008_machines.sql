-- Connections that rent machines, and the machines they rent.

-- +goose Up

CREATE TABLE providers (
    id             TEXT PRIMARY KEY NOT NULL,
    name           TEXT NOT NULL UNIQUE,
    kind           TEXT NOT NULL,
    config         TEXT NOT NULL, -- JSON in the kind's own words, without secrets
    secret         TEXT NOT NULL, -- sealed
    shapes         TEXT NOT NULL,
    enabled        BOOLEAN NOT NULL,
    paused_at      BIGINT NOT NULL,
    paused_by      TEXT NOT NULL,
    pause_reason   TEXT NOT NULL,
    max_machines   BIGINT NOT NULL,
    idle_timeout   BIGINT NOT NULL,
    cooldown       BIGINT NOT NULL,
    failure_streak BIGINT NOT NULL,
    failed_at      BIGINT NOT NULL,
    held_until     BIGINT NOT NULL,
    hold_reason    TEXT NOT NULL,
    fenced_at      BIGINT NOT NULL,
    fence_reason   TEXT NOT NULL,
    image          TEXT NOT NULL, -- JSON; what new machines are made from
    swept_at       BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL
);

-- A machine's row exists before its resource, and is deleted in name only: its identity stays taken for a while.
CREATE TABLE machines (
    id            TEXT PRIMARY KEY NOT NULL,
    provider_id   TEXT NOT NULL REFERENCES providers (id),
    name          TEXT NOT NULL UNIQUE, -- a DNS label
    state         TEXT NOT NULL CHECK (state IN ('planned', 'creating', 'starting', 'bootstrapping', 'enrolling', 'ready',
        'draining', 'deleting', 'deleted', 'failed', 'quarantined')),
    state_at      BIGINT NOT NULL,
    message       TEXT NOT NULL,
    reason        TEXT NOT NULL,
    shape         TEXT NOT NULL, -- JSON
    image         TEXT NOT NULL, -- JSON
    resource_id   TEXT NOT NULL, -- empty until it is chosen
    zone          TEXT NOT NULL,
    nonce         TEXT NOT NULL,
    operation     TEXT NOT NULL,
    doing         TEXT NOT NULL,
    attempts      BIGINT NOT NULL,
    pool_id       TEXT NOT NULL,
    demand_at     BIGINT NOT NULL,
    join_token_id TEXT NOT NULL,
    host_id       TEXT NOT NULL,
    drained_by    TEXT NOT NULL,
    was_cordoned  BOOLEAN NOT NULL,
    settled       BOOLEAN NOT NULL,
    created_at    BIGINT NOT NULL,
    creating_at   BIGINT NOT NULL,
    built_at      BIGINT NOT NULL,
    booted_at     BIGINT NOT NULL,
    joined_at     BIGINT NOT NULL,
    ready_at      BIGINT NOT NULL,
    first_job_at  BIGINT NOT NULL,
    idle_since    BIGINT NOT NULL,
    proved_at     BIGINT NOT NULL,
    finished_at   BIGINT NOT NULL,
    deleted_at    BIGINT NOT NULL,
    released_by   TEXT NOT NULL
);
-- No two rows may ever speak for one resource.
CREATE UNIQUE INDEX machines_once ON machines (provider_id, resource_id) WHERE state <> 'deleted' AND resource_id <> '';
CREATE INDEX machines_live ON machines (created_at, id) WHERE state <> 'deleted';
CREATE INDEX machines_deleted ON machines (deleted_at) WHERE state = 'deleted';
CREATE INDEX machines_provider ON machines (provider_id, resource_id);
CREATE INDEX machines_token ON machines (join_token_id) WHERE join_token_id <> '';
CREATE INDEX machines_host ON machines (host_id) WHERE host_id <> '';
