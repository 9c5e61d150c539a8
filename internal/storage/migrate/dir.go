package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

// Dir is an embedded store in a directory. Each method locks the store, and returns an error if another
// process uses it.
type Dir struct {
	Path string
	// AbandonForks permits copies without the states that forks need.
	AbandonForks bool
}

func (d Dir) String() string { return d.Path }

// CheckSource implements Store. The error wraps ErrForks if the store has pins.
func (d Dir) CheckSource(ctx context.Context) error {
	there, err := embedded.Exists(d.Path)
	if !there || err != nil || d.AbandonForks {
		return err
	}
	store, err := d.open()
	if err != nil {
		return err
	}
	pins, err := store.Pins(ctx)
	if err = errors.Join(err, store.Close()); err == nil && len(pins) > 0 {
		err = fmt.Errorf("read %s: %w", d, ErrForks)
	}
	return err
}

// Count implements Store. A missing directory has no keys.
func (d Dir) Count(ctx context.Context) (n int64, err error) {
	if there, err := embedded.Exists(d.Path); err != nil || !there {
		return 0, err
	}
	store, err := d.open()
	if err != nil {
		return 0, err
	}
	res, err := store.Range(ctx, kv.RangeRequest{CountOnly: true})
	return res.Count, errors.Join(err, store.Close())
}

// open opens the store without compaction.
func (d Dir) open() (*embedded.Store, error) {
	if _, err := os.Stat(d.Path); err != nil {
		return nil, err
	}
	return embedded.Open(embedded.Config{Dir: d.Path, Retention: -1})
}

// Read implements Store.
func (d Dir) Read(ctx context.Context, to Visitor) error {
	store, err := d.open()
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	copied := make(chan error, 1)
	go func() { // ends when r is closed
		_, err := store.Snapshot(ctx, w)
		copied <- errors.Join(err, w.CloseWithError(err))
	}()
	_, err = embedded.ReadSnapshot(r, embedded.SnapshotReader{
		Begin:  to.Begin,
		Record: func(r embedded.Record) error { return to.Record(Record{r.Entry, r.Expires}) },
	})
	_ = r.CloseWithError(err) // always nil
	if failed := <-copied; failed != nil && err == nil {
		err = failed
	}
	return errors.Join(err, store.Close())
}

// Fill implements Store. It creates the new store in another directory, and keeps the old store under another
// name. The new store's revision is greater than any revision of the source.
func (d Dir) Fill(ctx context.Context, from func(Visitor) error, check func(Store) error) error {
	next := Dir{Path: d.Path + ".new"}
	if err := os.RemoveAll(next.Path); err != nil {
		return fmt.Errorf("remove the files of an earlier attempt: %w", err)
	}
	if err := next.restore(from); err != nil {
		return errors.Join(err, os.RemoveAll(next.Path))
	}
	if err := check(next); err != nil {
		return errors.Join(err, os.RemoveAll(next.Path))
	}
	if err := ctx.Err(); err != nil {
		return errors.Join(err, os.RemoveAll(next.Path))
	}
	old := ""
	if _, err := os.Stat(d.Path); err == nil {
		old = d.Path + ".replaced-" + time.Now().UTC().Format("20060102T150405Z")
		if err := os.Rename(d.Path, old); err != nil {
			return fmt.Errorf("rename the old store: %w", err)
		}
	}
	if err := os.Rename(next.Path, d.Path); err != nil {
		if old != "" {
			err = errors.Join(err, os.Rename(old, d.Path))
		}
		return fmt.Errorf("rename the new store: %w", err)
	}
	if err := embedded.SyncName(d.Path); err != nil {
		return fmt.Errorf("rename the new store: %w", err)
	}
	return nil
}

// restore creates the store, which must not exist, with the records of from.
func (d Dir) restore(from func(Visitor) error) error {
	r, w := io.Pipe()
	read := make(chan error, 1)
	go func() { // ends when r is closed
		err := writeSnapshot(w, from)
		read <- err
		_ = w.CloseWithError(err) // always nil
	}()
	err := embedded.Restore(r, d.Path)
	_ = r.CloseWithError(errRestore)
	if failed := <-read; failed != nil && !errors.Is(failed, errRestore) {
		return failed // the source could not be read, which also caused err
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", d, err)
	}
	return nil
}

// errRestore is returned to the source after the target has failed.
var errRestore = errors.New("the target has failed")

func writeSnapshot(w io.Writer, from func(Visitor) error) error {
	var sw *embedded.SnapshotWriter
	err := from(Visitor{
		Begin: func(at kv.Revision) (err error) {
			sw, err = embedded.NewSnapshotWriter(w, at)
			return err
		},
		Record: func(r Record) error { return sw.Put(embedded.Record{Entry: r.Entry, Expires: r.Expires}) },
	})
	if err != nil {
		return err
	}
	return sw.Close()
}
