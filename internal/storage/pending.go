package storage

import (
	"sync"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// pendingRecord is the record of a write until its revision is known. It is the
// kv.Op.Note of the write, so that the events of the commit carry it. Writer and
// watches both call resolve; the first call makes the record and all return the
// same one, with the encodings that it has cached.
type pendingRecord struct {
	kind *codec.Kind
	once sync.Once
	// object and value are the written ones; before is the deleted record or, for a put, the
	// converted one. After the write was passed to the backend, only resolve may use them.
	object codec.Object
	value  []byte
	before *codec.Record

	record *codec.Record
}

// resolve returns the record at the revision of the commit. It may be called
// concurrently.
func (p *pendingRecord) resolve(revision kv.Revision) *codec.Record {
	p.once.Do(func() {
		if p.before != nil {
			p.record = p.before.At(int64(revision))
		} else {
			p.record = codec.RecordOf(p.kind, p.object, p.value, int64(revision))
		}
		p.object, p.value, p.before = nil, nil, nil
	})
	return p.record
}

// writerRecord returns the record that the writer shares through an event. It is
// nil for writes of other processes and for records of another kind.
func (s *Store) writerRecord(ev *kv.Event) *codec.Record {
	if pending, ok := ev.Note.(*pendingRecord); ok && pending.kind == s.kind {
		return pending.resolve(ev.Revision)
	}
	return nil
}
