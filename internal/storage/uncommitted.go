package storage

import (
	"sync"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// uncommittedRecord is the record of a write whose revision is not known yet. It is the kv.Op.Note of
// the write, so that the backend attaches it to the events of the commit. The writer and all watches
// call resolve. The first call creates the record, and all calls return the same one, with its cached
// encodings.
type uncommittedRecord struct {
	kind *codec.Kind
	once sync.Once
	// object and value are the written object and its encoding. before is the deleted record or, for
	// a put, the result of convertBack. Only resolve may use these fields after the write was passed
	// to the backend.
	object codec.Object
	value  []byte
	before *codec.Record

	record *codec.Record
}

// resolve returns the record at the revision of the commit. It is safe for concurrent use.
func (u *uncommittedRecord) resolve(revision kv.Revision) *codec.Record {
	u.once.Do(func() {
		if u.before != nil {
			u.record = u.before.WithRevision(int64(revision))
		} else {
			u.record = codec.RecordOf(u.kind, u.object, u.value, int64(revision))
		}
		u.object, u.value, u.before = nil, nil, nil
	})
	return u.record
}

// writerRecord returns the record that the writer shares through an event. It is nil for writes of
// other processes and for records of another kind.
func (s *Store) writerRecord(ev *kv.Event) *codec.Record {
	if note, ok := ev.Note.(*uncommittedRecord); ok && note.kind == s.kind {
		return note.resolve(ev.Revision)
	}
	return nil
}
