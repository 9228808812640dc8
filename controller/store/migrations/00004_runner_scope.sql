-- A runner's row says where it is registered: its pool may be deleted, or moved, before its registration is gone.

-- +goose Up

ALTER TABLE runners ADD COLUMN repository TEXT NOT NULL DEFAULT '';
UPDATE runners SET repository = COALESCE((SELECT repository FROM pools WHERE pools.id = runners.pool_id), '');
CREATE INDEX runners_scope ON runners (installation_id, repository) WHERE repository <> '';
