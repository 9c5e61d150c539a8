package processor

import (
	"testing"
)

// BenchmarkTurn is what a turn costs that nobody else wants.
func BenchmarkTurn(b *testing.B) {
	b.ReportAllocs()
	turns := New(Config{})
	var t Turn
	for b.Loop() {
		turns.Begin(&t, Change, "")
		t.End()
	}
}

// BenchmarkGiveWay is what the holder of a turn pays between pieces of its work.
func BenchmarkGiveWay(b *testing.B) {
	b.ReportAllocs()
	turns := New(Config{})
	var t Turn
	turns.Begin(&t, Bulk, "")
	for b.Loop() {
		t.GiveWay()
	}
}

// BenchmarkContended is what a turn costs that another one wants as well.
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

// BenchmarkNetPoll is what a look at the network costs.
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
