package kv

import "context"

// Pin is a state that a Pinner retains: the keys with a prefix at a revision, for one owner.
type Pin struct {
	Revision      Revision
	Prefix, Owner string
}

// Pinner is a Backend that can retain past states durably. Unlike a hold, a pin has no maximum duration and
// outlives the process.
type Pinner interface {
	// Pin retains the state of the keys with a prefix at a revision until Unpin. Get, and Range within the prefix,
	// can read it at exactly this revision, even after its compaction. Watches cannot start from it. prefix must end
	// with a slash, and owner identifies the pins of one user; neither contains a zero byte. Pinning the same
	// state again has no effect. The pin is durable when Pin returns. The error is ErrCompacted if the revision was compacted
	// and no pin retains the whole prefix at this revision, and ErrFutureRevision if the revision does not exist yet.
	Pin(ctx context.Context, owner, prefix string, at Revision) error

	// Unpin removes all pins of an owner. The data is deleted in the background. Open reads may continue;
	// later reads return ErrCompacted. Without a pin of the owner, it has no effect.
	Unpin(ctx context.Context, owner string) error

	// Pins returns all pins in the order of their revisions.
	Pins(ctx context.Context) ([]Pin, error)
}
