-- Connections to providers that a command on the provider's own machine sets up. What it posts stays here, sealed, until a provider is
-- made of it.

-- +goose Up

CREATE TABLE provider_setups (
    id           TEXT PRIMARY KEY NOT NULL,
    name         TEXT NOT NULL UNIQUE, -- of the connection
    hash         TEXT NOT NULL UNIQUE, -- SHA-256 of the capability
    endpoint     TEXT NOT NULL, -- empty until it was completed
    connection   TEXT NOT NULL, -- sealed; empty until it was completed
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    completed_at BIGINT NOT NULL -- 0 until it was
);
CREATE INDEX provider_setups_expires ON provider_setups (expires_at);
