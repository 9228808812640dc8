-- A job is looked up among the installations at its GitHub: every delivery does so.

-- +goose Up

CREATE INDEX installations_github ON installations (base_url);
