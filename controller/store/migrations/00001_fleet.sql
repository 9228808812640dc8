-- The fleet's first schema. SQL that SQLite and PostgreSQL share: times are BIGINT microseconds
-- since 1970 in UTC with 0 for "none", durations BIGINT microseconds, lists and maps JSON in TEXT.

-- +goose Up

CREATE TABLE installations (
    id               TEXT PRIMARY KEY NOT NULL,
    name             TEXT NOT NULL UNIQUE,
    base_url         TEXT NOT NULL,
    app_id           BIGINT NOT NULL,
    installation_id  BIGINT NOT NULL,
    account          TEXT NOT NULL,
    account_type     TEXT NOT NULL,
    private_key      TEXT NOT NULL, -- sealed
    webhook_secret   TEXT NOT NULL, -- sealed
    hold_until       BIGINT NOT NULL DEFAULT 0,
    hold_reason      TEXT NOT NULL DEFAULT '',
    last_delivery_at BIGINT NOT NULL DEFAULT 0,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL
);
-- Two rows for one installation would count every job of it twice.
CREATE UNIQUE INDEX installations_once ON installations (base_url, installation_id) WHERE installation_id <> 0;

CREATE TABLE pools (
    id              TEXT PRIMARY KEY NOT NULL,
    name            TEXT NOT NULL UNIQUE,
    installation_id TEXT NOT NULL REFERENCES installations (id),
    repository      TEXT NOT NULL,
    runner_group_id BIGINT NOT NULL,
    labels          TEXT NOT NULL,
    backend         TEXT NOT NULL,
    image           TEXT NOT NULL,
    pull_policy     TEXT NOT NULL,
    os              TEXT NOT NULL,
    arch            TEXT NOT NULL,
    host_selector   TEXT NOT NULL,
    min_runners     BIGINT NOT NULL,
    max_runners     BIGINT NOT NULL,
    priority        BIGINT NOT NULL,
    enabled         BOOLEAN NOT NULL,
    ephemeral       BOOLEAN NOT NULL,
    idle_timeout    BIGINT NOT NULL,
    scale_up_delay  BIGINT NOT NULL,
    max_lifetime    BIGINT NOT NULL,
    repo_limit      BIGINT NOT NULL,
    cpus            DOUBLE PRECISION NOT NULL,
    memory_mb       BIGINT NOT NULL,
    pids_limit      BIGINT NOT NULL,
    network         TEXT NOT NULL,
    read_only       BOOLEAN NOT NULL,
    daemon          TEXT NOT NULL,
    daemon_image    TEXT NOT NULL,
    env             TEXT NOT NULL,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL
);
CREATE INDEX pools_installation ON pools (installation_id);

CREATE TABLE hosts (
    id                TEXT PRIMARY KEY NOT NULL,
    name              TEXT NOT NULL UNIQUE,
    token_hash        TEXT NOT NULL,
    instance          TEXT NOT NULL DEFAULT '', -- the run of its agent that polled last
    embedded          BOOLEAN NOT NULL,
    os                TEXT NOT NULL,
    arch              TEXT NOT NULL,
    distro            TEXT NOT NULL,
    agent_version     TEXT NOT NULL,
    cpus              DOUBLE PRECISION NOT NULL,
    memory_mb         BIGINT NOT NULL,
    disk_total_mb     BIGINT NOT NULL,
    disk_free_mb      BIGINT NOT NULL,
    capacity          BIGINT NOT NULL,
    labels            TEXT NOT NULL,
    backends          TEXT NOT NULL,
    cordoned          BOOLEAN NOT NULL,
    last_heartbeat_at BIGINT NOT NULL,
    lost_at           BIGINT NOT NULL,
    joined_at         BIGINT NOT NULL
);

CREATE TABLE join_tokens (
    id         TEXT PRIMARY KEY NOT NULL,
    hash       TEXT NOT NULL UNIQUE,
    host_name  TEXT NOT NULL,
    embedded   BOOLEAN NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL,
    used_by    TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE jobs (
    id              TEXT PRIMARY KEY NOT NULL,
    installation_id TEXT NOT NULL REFERENCES installations (id) ON DELETE CASCADE,
    github_id       BIGINT NOT NULL,
    run_id          BIGINT NOT NULL,
    run_attempt     BIGINT NOT NULL,
    repository      TEXT NOT NULL,
    workflow        TEXT NOT NULL,
    name            TEXT NOT NULL,
    labels          TEXT NOT NULL,
    state           TEXT NOT NULL CHECK (state IN ('waiting', 'queued', 'in_progress', 'completed')),
    conclusion      TEXT NOT NULL,
    runner_id       TEXT NOT NULL,
    runner_name     TEXT NOT NULL,
    fleet_fault     TEXT NOT NULL,
    html_url        TEXT NOT NULL,
    queued_at       BIGINT NOT NULL,
    seen_at         BIGINT NOT NULL,
    started_at      BIGINT NOT NULL,
    completed_at    BIGINT NOT NULL,
    checked_at      BIGINT NOT NULL,
    UNIQUE (installation_id, github_id)
);
CREATE INDEX jobs_unfinished ON jobs (queued_at, github_id) WHERE state <> 'completed';
CREATE INDEX jobs_completed ON jobs (completed_at) WHERE state = 'completed';

-- A runner's row outlives its pool and its host: its registration and workload still have to go.
CREATE TABLE runners (
    id              TEXT PRIMARY KEY NOT NULL,
    name            TEXT NOT NULL UNIQUE,
    pool_id         TEXT NOT NULL,
    host_id         TEXT NOT NULL,
    installation_id TEXT NOT NULL,
    backend         TEXT NOT NULL,
    image           TEXT NOT NULL,
    state           TEXT NOT NULL CHECK (state IN
        ('provisioning', 'registering', 'idle', 'busy', 'draining', 'failed', 'removed')),
    message         TEXT NOT NULL,
    reason          TEXT NOT NULL,
    github_id       BIGINT NOT NULL,
    demand_job_id   TEXT NOT NULL,
    job_id          TEXT NOT NULL,
    workload_id     TEXT NOT NULL,
    ephemeral       BOOLEAN NOT NULL,
    cpus            DOUBLE PRECISION NOT NULL,
    memory_mb       BIGINT NOT NULL,
    exit_code       BIGINT,
    oom_killed      BOOLEAN NOT NULL,
    created_at      BIGINT NOT NULL,
    state_at        BIGINT NOT NULL,
    started_at      BIGINT NOT NULL,
    registered_at   BIGINT NOT NULL,
    busy_at         BIGINT NOT NULL,
    drain_at        BIGINT NOT NULL,
    finished_at     BIGINT NOT NULL,
    deregistered    BOOLEAN NOT NULL,
    cleaned         BOOLEAN NOT NULL
);
CREATE INDEX runners_created ON runners (created_at, id);
CREATE INDEX runners_live ON runners (created_at, id) WHERE state NOT IN ('removed', 'failed');
CREATE INDEX runners_finished ON runners (finished_at) WHERE state IN ('removed', 'failed');
CREATE INDEX runners_kept ON runners (created_at, id) WHERE state <> 'removed';
CREATE INDEX runners_unclean ON runners (created_at, id) WHERE state IN ('removed', 'failed') AND NOT (deregistered AND cleaned);

CREATE TABLE tasks (
    id          TEXT PRIMARY KEY NOT NULL,
    seq         BIGINT NOT NULL UNIQUE, -- order of arrival
    host_id     TEXT NOT NULL REFERENCES hosts (id) ON DELETE CASCADE,
    runner_id   TEXT NOT NULL,
    kind        TEXT NOT NULL,
    payload     TEXT NOT NULL, -- sealed; emptied when the task ends
    state       TEXT NOT NULL CHECK (state IN ('pending', 'leased', 'done', 'failed', 'cancelled')),
    attempt     BIGINT NOT NULL,
    result      TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    offered_at  BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    ended_at    BIGINT NOT NULL
);
CREATE INDEX tasks_pending ON tasks (host_id, seq) WHERE state = 'pending';
CREATE INDEX tasks_leased ON tasks (lease_until) WHERE state = 'leased';
CREATE INDEX tasks_ended ON tasks (ended_at) WHERE state IN ('done', 'failed', 'cancelled');
CREATE INDEX tasks_runner ON tasks (runner_id, kind);
-- One outstanding task of a kind for a runner, and one create in a runner's whole life.
CREATE UNIQUE INDEX tasks_outstanding ON tasks (runner_id, kind)
    WHERE state IN ('pending', 'leased') AND runner_id <> '';
CREATE UNIQUE INDEX tasks_one_create ON tasks (runner_id) WHERE kind = 'create_runner';

CREATE TABLE deliveries (
    id              TEXT PRIMARY KEY NOT NULL, -- GitHub's GUID
    installation_id TEXT NOT NULL,
    event           TEXT NOT NULL,
    action          TEXT NOT NULL,
    github_job_id   BIGINT NOT NULL,
    received_at     BIGINT NOT NULL,
    outcome         TEXT NOT NULL
);
CREATE INDEX deliveries_received ON deliveries (received_at);

CREATE TABLE settings (
    key        TEXT PRIMARY KEY NOT NULL,
    value      TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- One row at most: the controller that holds this database.
CREATE TABLE controller_lease (
    id         BIGINT PRIMARY KEY NOT NULL CHECK (id = 1),
    holder_id  TEXT NOT NULL,
    host       TEXT NOT NULL,
    pid        BIGINT NOT NULL,
    renewed_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
