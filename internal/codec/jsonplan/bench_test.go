package jsonplan_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"mainstay.dev/mainstay/internal/codec/codectest"
	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// BenchmarkMarshal encodes pods of 4 KiB and 9 KiB; half of the larger one is managed fields.
func BenchmarkMarshal(b *testing.B) {
	for _, pod := range codectest.Pods() {
		size, err := json.Marshal(pod)
		if err != nil {
			b.Fatal(err)
		}
		for name, marshal := range map[string]func(any) ([]byte, error){"encodingjson": json.Marshal, "plan": jsonplan.Marshal} {
			b.Run(fmt.Sprintf("%dB/%s", len(size), name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := marshal(pod); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
