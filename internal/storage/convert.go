package storage

import (
	"context"
	"iter"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// This file converts objects whose codec.Kind has a Convert function, which may call a webhook. Objects are
// converted before they are decoded, in batches and with the context of the request.

// convertRecords yields the records of a plan after their conversion to the hub version. The iteration blocks
// during calls to the webhook.
func (s *Store) convertRecords(ctx context.Context, p *ListPlan, records iter.Seq2[*codec.Record, error]) iter.Seq2[*codec.Record, error] {
	if s.kind.Convert == nil {
		return records
	}
	maxBatch := codec.MaxConverted
	if p.Limit > 0 {
		maxBatch = int(min(p.Limit, int64(maxBatch)))
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
			if p.Limit > 0 && seen >= p.Limit && p.Unfiltered() {
				// This record is not returned. It only proves that there is another page.
				if !flush() || !yield(record, nil) {
					return
				}
				continue
			}
			full := len(batch) == maxBatch || len(batch) > 0 && size+record.StoredSize() > codec.MaxConvertedBytes
			if full && !flush() {
				return
			}
			batch, size, seen = append(batch, record), size+record.StoredSize(), seen+1
		}
		flush()
	}
}

// convertBack converts an encoded object to the hub version before it is written, to reject an object that
// later reads could not convert. The write then returns the converted record.
func (u *uncommittedRecord) convertBack(ctx context.Context, name types.NamespacedName) error {
	if u.kind.Convert == nil {
		return nil
	}
	record := codec.NewRecord(u.kind, name, u.value, 0)
	if !record.NeedsConversion() {
		return nil
	}
	if err := codec.Convert(ctx, record); err != nil {
		return err
	}
	u.before = record
	return nil
}

// convertForSelectors converts the records of changes before selectors evaluate them. Without selectors, it
// does nothing, and convertEvents converts only the records in events.
func (c *cursor) convertForSelectors(ctx context.Context, changes []*Change) error {
	if c.Unfiltered() || len(changes) == 0 || !changes[0].converts() {
		return nil
	}
	records := make([]*codec.Record, 0, 2*len(changes))
	for _, change := range changes {
		records = append(records, change.Prev, change.Record)
	}
	return codec.Convert(ctx, records...)
}

// converts reports whether the kind of the changed object has a Convert function.
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
