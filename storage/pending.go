package storage

import (
	"sync"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/storage/kv"
)

// pendingRecord is the kv.Op.Note of a write: a record that lacks its revision. The
// writer learns the revision from the commit, watchers in this process from the
// event, and whoever comes first seals the record; the others get the same one,
// and with it the encodings that anybody made of it.
type pendingRecord struct {
	kind *codec.Kind
	once sync.Once
	// object is what was written; before is the record that was deleted.
	// Only seal touches them once the write was handed to the backend.
	object codec.Object
	value  []byte
	before *codec.Record

	record *codec.Record
}

// resolve returns the record with the revision of the commit.
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

// writerRecord returns the record that the writer of an event left with it, nil if
// there is none, or none of this store's kind.
func (s *Store) writerRecord(ev *kv.Event) *codec.Record {
	if note, ok := ev.Note.(*pendingRecord); ok && note.kind == s.kind {
		return note.resolve(ev.Revision)
	}
	return nil
}
