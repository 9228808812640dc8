-- A lease names the machine of its holder, whatever its host name: two machines made of one image share that.

-- +goose Up

ALTER TABLE controller_lease ADD COLUMN machine TEXT NOT NULL DEFAULT '';
