-- +goose Up
-- What ended rebuilds were given as user data: nobody reads it there any more.
UPDATE operations SET arguments = arguments #- '{change,user_data}'
WHERE kind = 'rebuild' AND state NOT IN ('accepted', 'running') AND arguments -> 'change' ? 'user_data';

-- +goose Down
-- The text is gone for good, and an older release does without it.
SELECT 1;
