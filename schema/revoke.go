package schema

import "context"

// LockOut revokes the certificates of a host, by its name or uuid, and takes back the tokens for it
// that nobody used yet. found is of how many that was.
func LockOut(ctx context.Context, q *Queries, host string) (found int64, err error) {
	// The tokens first: what one gets that is being used is there once this has waited for it.
	if found, err = q.DeleteEnrollmentsOf(ctx, host); err != nil {
		return found, err
	}
	revoked, err := RevokeAll(ctx, q, host)
	return found + revoked, err
}

// RevokeAll revokes the certificates of a host, again until there is none: one that a renewal
// issued meanwhile is in no snapshot of before. In a transaction it needs READ COMMITTED, in which
// each statement has a snapshot of its own.
func RevokeAll(ctx context.Context, q *Queries, host string) (revoked int64, err error) {
	for changed := int64(1); err == nil && changed > 0; revoked += changed {
		changed, err = q.RevokeHost(ctx, host)
	}
	return revoked, err
}
