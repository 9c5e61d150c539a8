package processor

import (
	"testing"
)

// BenchmarkTurn measures a turn without contention.
func BenchmarkTurn(b *testing.B) {
	b.ReportAllocs()
	turns := New(Config{})
	var t Turn
	for b.Loop() {
		turns.Begin(&t, Change, "")
		t.End()
	}
}

// BenchmarkGiveWay measures yielding between parts of the work.
func BenchmarkGiveWay(b *testing.B) {
	b.ReportAllocs()
	turns := New(Config{})
	var t Turn
	turns.Begin(&t, Bulk, "")
	for b.Loop() {
		t.GiveWay()
	}
}

// BenchmarkContended measures a turn with contention.
func BenchmarkContended(b *testing.B) {
	b.ReportAllocs()
	turns := New(Config{})
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		var t Turn
		for pb.Next() {
			turns.Begin(&t, Bulk, "")
			t.End()
		}
	})
}

// BenchmarkNetPoll measures polling the network.
func BenchmarkNetPoll(b *testing.B) {
	b.ReportAllocs()
	p, err := newPipe()
	if err != nil {
		b.Skip(err)
	}
	for b.Loop() {
		p.pass()
	}
}
