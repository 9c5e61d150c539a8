package storage

import (
	"context"
	"iter"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// Objects whose conversion may call a webhook (codec.Kind.Convert) are converted here, in batches
// and with the request's context, before they are decoded.

// readable yields the records of a plan converted.
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
				// It is not returned: it only shows that there is another page.
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

// readBack converts an object to the hub version before its write, as a read would: an object that
// cannot be converted must not be written. The write then returns the converted record.
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

// readable converts the records of changes that selectors have to match.
func (c *Cursor) readable(ctx context.Context, changes []*Change) error {
	if c.All() || len(changes) == 0 || !changes[0].converts() {
		return nil
	}
	matched := make([]*codec.Record, 0, 2*len(changes))
	for _, change := range changes {
		matched = append(matched, change.Prev, change.Record)
	}
	return codec.Convert(ctx, matched...)
}

// converts reports whether a change is of a kind with Kind.Convert.
func (c *Change) converts() bool {
	record := c.Record
	if record == nil {
		record = c.Prev
	}
	return record != nil && record.Kind().Convert != nil
}

// convertEvents converts the records of events before Next returns them.
func convertEvents(ctx context.Context, events []rest.Event) error {
	if len(events) == 0 || events[0].Record == nil || events[0].Record.Kind().Convert == nil {
		return nil
	}
	records := make([]*codec.Record, 0, len(events))
	for i := range events {
		records = append(records, events[i].Record)
	}
	return codec.Convert(ctx, records...)
}
