-- Deliveries are read page by page, newest first, all of them or those of an installation or a job.

-- +goose Up

DROP INDEX deliveries_received;
CREATE INDEX deliveries_newest ON deliveries (received_at, id);
CREATE INDEX deliveries_installation ON deliveries (installation_id, received_at, id);
CREATE INDEX deliveries_job ON deliveries (github_job_id, received_at, id);
