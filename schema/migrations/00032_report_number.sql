-- +goose Up
-- The number of a host's last report: those of one boot ascend. 0: it was of a release that numbers none.
ALTER TABLE hosts ADD COLUMN report_number bigint NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE hosts DROP COLUMN report_number;
