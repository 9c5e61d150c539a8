package backup

import (
	"bytes"
	"context"
	"time"

	"filippo.io/age"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/origin"
)

// maxSegment is the size of the commits of a segment, in bytes before compression, above which the segment is
// uploaded before the interval is over.
const maxSegment = 8 << 20

// segmentBuilder builds a segment in memory.
type segmentBuilder struct {
	segment Segment
	buf     bytes.Buffer
	object  *objectWriter
	size    int // size of the commits, in bytes
	last    commit
	raw     []byte
	// notBefore is the minimum time of the next commit, so that the times of commits never decrease.
	notBefore time.Time
}

// newSegmentBuilder returns a builder of the segment after a revision. t is the minimum time of its commits.
func newSegmentBuilder(after kv.Revision, t time.Time) *segmentBuilder {
	return &segmentBuilder{segment: Segment{First: after + 1}, notBefore: t}
}

func (b *segmentBuilder) empty() bool { return b.object == nil }

// add adds the events of a commit.
func (b *segmentBuilder) add(events []kv.Event, recipients []age.Recipient) error {
	c := commit{revision: events[0].Revision, origin: events[0].Origin, events: events}
	t := commitTime(c.origin)
	if t.Before(b.notBefore) {
		t = b.notBefore
	}
	c.time = t.UnixMilli()
	t = time.UnixMilli(c.time)
	b.notBefore = t
	if b.empty() {
		var err error
		if b.object, err = newObjectWriter(&b.buf, recipients); err != nil {
			return err
		}
		b.segment.FirstTime = t
	}
	b.raw = appendCommit(b.raw[:0], &c)
	b.size += len(b.raw)
	b.segment.Last, b.segment.LastTime, b.last = c.revision, t, c
	_, err := b.object.Write(b.raw)
	return err
}

// commitTime returns the time in the origin of a commit, or the current time if it is unknown.
func commitTime(raw []byte) time.Time {
	if o, err := origin.Decode(raw); err == nil && !o.Time.IsZero() {
		return o.Time
	}
	return time.Now()
}

// put completes the segment with the pins of the store, and uploads it. The builder cannot be used afterwards.
func (b *segmentBuilder) put(ctx context.Context, to Target, generation string, pins []kv.Pin) (Segment, error) {
	if len(pins) > 0 {
		if _, err := b.object.Write(appendPins(nil, pins)); err != nil {
			return Segment{}, err
		}
	}
	if err := b.object.close(markOf(&b.last)); err != nil {
		return Segment{}, err
	}
	b.segment.setName(generation)
	b.segment.Size = int64(b.buf.Len())
	return b.segment, to.Put(ctx, b.segment.Name, bytes.NewReader(b.buf.Bytes()))
}
