package kv

import "context"

// Pin is a past state that a Pinner retains for an owner. It consists of all keys with a prefix at one
// revision.
type Pin struct {
	Revision      Revision
	Prefix, Owner string
}

// Pinner is a Backend that can retain past states durably. Unlike a hold, a pin has no maximum duration and
// outlives the process.
type Pinner interface {
	// Pin retains the state of the keys with a prefix at a revision until Unpin is called. Even after the
	// revision was compacted, Get can read these keys, and Range can read ranges within the prefix, at
	// exactly this revision. Watches cannot start from it. prefix must end with a slash, and owner identifies
	// the pins of one user; neither may contain a zero byte. If the owner already has this pin, Pin has no
	// effect. The pin is durable when Pin returns. The error is ErrCompacted if the revision was compacted
	// and no pin retains the whole prefix at this revision, and ErrFutureRevision if the revision does not
	// exist yet.
	Pin(ctx context.Context, owner, prefix string, at Revision) error

	// Unpin removes all pins of an owner. The data is deleted in the background. Reads in progress may
	// complete. Later reads return ErrCompacted if the revision was compacted and no other pin retains the
	// state. Unpin has no effect if the owner has no pins.
	Unpin(ctx context.Context, owner string) error

	// Pins returns all pins in the order of their revisions.
	Pins(ctx context.Context) ([]Pin, error)
}
