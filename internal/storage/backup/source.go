package backup

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"filippo.io/age"

	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

// Source reads a backup. Its methods must not be called concurrently.
type Source struct {
	Target Target
	// Identities decrypt the objects; nil if the objects are not encrypted.
	Identities []age.Identity
	// Progress is called with the number of bytes that have been read from the target. It may be nil.
	// Calls are sequential.
	Progress func(bytes int64)

	read atomic.Int64
}

// readSegment reads a segment and verifies it.
func (s *Source) readSegment(ctx context.Context, segment *Segment) (segmentContent, error) {
	object, err := s.open(ctx, segment.Object)
	if err != nil {
		return segmentContent{}, err
	}
	defer object.Close()
	var content segmentContent
	_, err = readObject(object, s.Identities, func(r io.Reader) (err error) {
		// The last commit can begin just below maxSegment, and the pins follow it. Each of them has at most maxCommit bytes.
		content, err = readSegmentContent(io.LimitReader(r, maxSegment+2*maxCommit))
		return err
	})
	n := len(content.commits)
	if err == nil && (n == 0 || content.commits[0].revision < segment.First || content.commits[n-1].revision != segment.Last) {
		err = errDamaged("its revisions are not those of its name")
	}
	return content, wrapObject(segment.Object, err)
}

// open opens an object.
func (s *Source) open(ctx context.Context, o Object) (io.ReadCloser, error) {
	object, err := s.Target.Get(ctx, o.Name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.Name, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{&countingReader{object, &s.read}, object}, nil
}

// countingReader adds the number of bytes of a reader to a counter.
type countingReader struct {
	io.Reader
	n *atomic.Int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n.Add(int64(n))
	return n, err
}

func (s *Source) progress() {
	if s.Progress != nil {
		s.Progress(s.read.Load())
	}
}

// readBase passes the pins and the records of a base to a reader, and verifies the base.
func (s *Source) readBase(ctx context.Context, base *Base, to embedded.SnapshotReader) error {
	object, err := s.open(ctx, base.Object)
	if err != nil {
		return err
	}
	defer object.Close()
	_, err = readObject(object, s.Identities, func(content io.Reader) error {
		info, err := embedded.ReadSnapshot(content, to)
		if err == nil && info.Revision != base.Revision {
			err = errDamaged("its revision is not that of its name")
		}
		return err
	})
	return wrapObject(base.Object, err)
}

func wrapObject(o Object, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read %s: %w", o.Name, err)
}
