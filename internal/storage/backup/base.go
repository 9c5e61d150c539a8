package backup

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

// putBase uploads a snapshot of the store. It also returns the pins that the store had before the snapshot.
// The base contains the states that these pins retain.
func (w *Writer) putBase(ctx context.Context, generation string) (base Base, pins embedded.PinSet, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	if pins, err = w.currentPins(); err != nil {
		return Base{}, nil, fmt.Errorf("read the store: %w", err)
	}
	snapshot := stream(func(to io.Writer) error {
		_, err := w.config.Backend.Snapshot(ctx, to)
		return err
	})
	defer snapshot.Close()
	content := bufio.NewReaderSize(snapshot, 64<<10)
	header, err := content.Peek(embedded.SnapshotHeaderLen)
	if err != nil {
		return Base{}, nil, fmt.Errorf("read the store: %w", err)
	}
	if base.Revision, err = embedded.SnapshotRevision(header); err != nil {
		return Base{}, nil, fmt.Errorf("read the store: %w", err)
	}
	base.Time = time.Now().Add(time.Millisecond).Truncate(time.Millisecond) // not before the commit of the revision
	base.setName(generation)
	object := stream(func(to io.Writer) error {
		o, err := newObjectWriter(to, w.config.Recipients)
		if err != nil {
			return err
		}
		if _, err := io.Copy(o, content); err != nil {
			return err
		}
		at, err := w.markAt(ctx, base.Revision)
		if err != nil {
			return err
		}
		return o.close(at)
	})
	defer object.Close()
	var size atomic.Int64
	if err := w.config.Target.Put(ctx, base.Name, &countingReader{object, &size}); err != nil {
		return Base{}, nil, err
	}
	base.Size = size.Load()
	w.metrics.uploaded(kindBase, base.Size, time.Since(began))
	return base, pins, nil
}

// stream returns a reader of the bytes that a function writes. The caller must close the reader, which makes
// further writes of the function fail.
func stream(write func(io.Writer) error) io.ReadCloser {
	r, w := io.Pipe()
	go func() { w.CloseWithError(write(w)) }() // ends when r is closed
	return r
}
