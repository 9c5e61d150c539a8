package storage

import (
	"context"
	"iter"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/rest"
)

// Objects whose conversion asks somebody outside (codec.Kind.Convert) are
// converted where there is a context and, if possible, many of them: here,
// before anybody looks at them.

// readable yields records once they can be looked at.
func (s *Store) readable(ctx context.Context, p *ListPlan, records iter.Seq2[*codec.Record, error]) iter.Seq2[*codec.Record, error] {
	if s.kind.Convert == nil {
		return records
	}
	most := codec.MaxConverted
	if p.Limit > 0 {
		most = int(min(p.Limit, int64(most)))
	}
	return func(yield func(*codec.Record, error) bool) {
		var batch []*codec.Record
		var seen int64
		size := 0
		flush := func() bool {
			if err := codec.Convert(ctx, batch...); err != nil {
				yield(nil, err)
				return false
			}
			for _, record := range batch {
				if !yield(record, nil) {
					return false
				}
			}
			batch, size = batch[:0], 0
			return true
		}
		for record, err := range records {
			if err != nil {
				if flush() {
					yield(nil, err)
				}
				return
			}
			if p.Limit > 0 && seen >= p.Limit && p.All() {
				// It only tells that there is more.
				if !flush() || !yield(record, nil) {
					return
				}
				continue
			}
			full := len(batch) == most || len(batch) > 0 && size+record.StoredSize() > codec.MaxConvertedBytes
			if full && !flush() {
				return
			}
			batch, size, seen = append(batch, record), size+record.StoredSize(), seen+1
		}
		flush()
	}
}

// readBack makes sure that what is about to be written can be read, in the
// version that it is sent in: an object that cannot is not written. The record
// that comes of the write is then at hand.
func (p *pendingRecord) readBack(ctx context.Context, name types.NamespacedName) error {
	if p.kind.Convert == nil {
		return nil
	}
	record := codec.NewRecord(p.kind, name, p.value, 0)
	if !record.Converts() {
		return nil
	}
	if err := codec.Convert(ctx, record); err != nil {
		return err
	}
	p.before = record
	return nil
}

// readable converts what the selection has to look at of changes.
func (c *Cursor) readable(ctx context.Context, changes []*Change) error {
	if c.All() || len(changes) == 0 || !changes[0].converts() {
		return nil
	}
	looked := make([]*codec.Record, 0, 2*len(changes))
	for _, change := range changes {
		looked = append(looked, change.Prev, change.Record)
	}
	return codec.Convert(ctx, looked...)
}

// converts reports whether a change is of a kind whose conversion takes asking.
func (c *Change) converts() bool {
	record := c.Record
	if record == nil {
		record = c.Prev
	}
	return record != nil && record.Kind().Convert != nil
}

// convertEvents converts what a watch is about to be told.
func convertEvents(ctx context.Context, events []rest.Event) error {
	if len(events) == 0 || events[0].Record == nil || events[0].Record.Kind().Convert == nil {
		return nil
	}
	told := make([]*codec.Record, 0, len(events))
	for i := range events {
		told = append(told, events[i].Record)
	}
	return codec.Convert(ctx, told...)
}
