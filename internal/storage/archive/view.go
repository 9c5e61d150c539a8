package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// ErrReadOnly is returned by the writing methods of a View.
var ErrReadOnly = errors.New("the past cannot be changed")

// View is the state of an archive at a revision, as a kv.Backend. Earlier states can also be read. Commit,
// Compact and Snapshot return ErrReadOnly. A watch delivers the changes up to the revision, and then waits
// until it is stopped. A View is safe for concurrent use.
type View struct {
	archive *Archive
	at      kv.Revision
}

var _ kv.Backend = (*View)(nil)

// View returns the state at a revision, after the archive has reached it. The error is an *ExpiredError
// if the state is unknown, and kv.ErrFutureRevision if the revision does not exist.
func (a *Archive) View(ctx context.Context, at kv.Revision) (*View, error) {
	newest, err := a.CatchUp(ctx)
	if err != nil {
		return nil, err
	}
	if at > newest {
		return nil, fmt.Errorf("read at revision %d, the newest being %d: %w", at, newest, kv.ErrFutureRevision)
	}
	if err := a.checkGaps(at); err != nil {
		return nil, err
	}
	if oldest := a.oldest(); at < oldest.revision {
		return nil, &ExpiredError{To: oldest.time}
	}
	return &View{a, at}, nil
}

// resolve returns the revision of a read; 0 selects the revision of the view. After a failed write, it waits
// until the archive has read the lost changes again.
func (v *View) resolve(ctx context.Context, at kv.Revision) (kv.Revision, error) {
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case at == 0:
		return v.at, v.archive.Await(ctx, v.at)
	case at < 0:
		return 0, fmt.Errorf("revision %d is negative", at)
	case at > v.at:
		return 0, fmt.Errorf("read at revision %d, the newest being %d: %w", at, v.at, kv.ErrFutureRevision)
	}
	if err := v.archive.checkGaps(at); err != nil {
		return 0, err
	}
	return at, v.archive.Await(ctx, at)
}

// Get implements kv.Backend.
func (v *View) Get(ctx context.Context, key string, at kv.Revision) (*kv.Entry, kv.Revision, error) {
	if strings.IndexByte(key, 0) >= 0 {
		return nil, 0, fmt.Errorf("get: key %q contains a zero byte", key)
	}
	at, err := v.resolve(ctx, at)
	if err != nil {
		return nil, 0, err
	}
	entry, err := v.archive.get(key, at)
	return entry, at, err
}

// Range implements kv.Backend.
func (v *View) Range(ctx context.Context, req kv.RangeRequest) (kv.RangeResult, error) {
	if req.Limit < 0 {
		return kv.RangeResult{}, fmt.Errorf("range: limit %d is negative", req.Limit)
	}
	at, err := v.resolve(ctx, req.At)
	if err != nil {
		return kv.RangeResult{}, err
	}
	return v.archive.scan(ctx, &req, at)
}

// Commit implements kv.Backend. It returns ErrReadOnly.
func (v *View) Commit(context.Context, ...kv.Op) (kv.CommitResult, error) {
	return kv.CommitResult{}, ErrReadOnly
}

// CurrentRevision implements kv.Backend.
func (v *View) CurrentRevision(ctx context.Context) (kv.Revision, error) { return v.at, ctx.Err() }

// RequestProgress implements kv.Backend. Watches of a view report their progress by themselves.
func (v *View) RequestProgress(ctx context.Context) error { return ctx.Err() }

// Compact implements kv.Backend. It returns ErrReadOnly.
func (v *View) Compact(context.Context, kv.Revision) error { return ErrReadOnly }

// CompactedRevision implements kv.Backend.
func (v *View) CompactedRevision(ctx context.Context) (kv.Revision, error) {
	return v.archive.oldest().revision, ctx.Err()
}

// Hold implements kv.Backend. It does not protect the revision: the retention of the archive applies.
func (v *View) Hold(ctx context.Context, at kv.Revision) (held kv.Revision, release func(), err error) {
	held, err = v.resolve(ctx, at)
	return held, func() {}, err
}

// RevisionAt implements kv.Backend.
func (v *View) RevisionAt(ctx context.Context, t time.Time) (kv.Revision, error) {
	at, err := v.archive.RevisionAt(ctx, t)
	return min(at, v.at), err
}

// Snapshot implements kv.Backend. It returns ErrReadOnly.
func (v *View) Snapshot(context.Context, io.Writer) (kv.Revision, error) { return 0, ErrReadOnly }

// Health implements kv.Backend.
func (v *View) Health(ctx context.Context) error {
	if _, err := v.archive.acquire(); err != nil {
		return err
	}
	v.archive.release()
	return ctx.Err()
}

// Close implements kv.Backend. The archive stays open.
func (v *View) Close() error { return nil }
