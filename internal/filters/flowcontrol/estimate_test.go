package flowcontrol

import (
	"context"
	"fmt"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/filters/flowcontrol/fairqueue"
	"mainstay.dev/mainstay/internal/request"
)

// TestListSeats compares estimates of lists with kube-apiserver's.
func TestListSeats(t *testing.T) {
	t.Parallel()
	const kb10 = 10_000
	tests := []struct {
		query   string
		stats   Stats
		max     int
		size    int // seats by size
		byCount int
	}{
		{"", Stats{399, kb10}, 100, 10, 4},
		{"", Stats{79, kb10}, 100, 8, 1},
		{"", Stats{}, 100, 1, 1},
		{"", Stats{Objects: 1}, 100, 10, 1}, // unknown size: 1.5 MB, limited by the memory for a list from the cache
		{"?limit=399&resourceVersion=1", Stats{699, kb10}, 100, 40, 8},
		{"?resourceVersion=1", Stats{699, kb10}, 100, 10, 7},
		{"?limit=20&resourceVersion=0", Stats{399, kb10}, 100, 2, 4},
		{"?limit=399&continue=token", Stats{699, kb10}, 100, 40, 8},
		{"?resourceVersion=1&resourceVersionMatch=Exact&limit=399", Stats{699, kb10}, 100, 40, 8},
		{"?resourceVersion=1&resourceVersionMatch=Exact", Stats{5000, kb10}, 20, 20, 10},
		{"?resourceVersion=1&resourceVersionMatch=NotOlderThan", Stats{799, kb10}, 100, 10, 8},
		{"?resourceVersion=1&resourceVersionMatch=Exact&labelSelector=a&limit=10", Stats{100, kb10}, 100, 5, 2},
		{"?resourceVersionMatch=foo", Stats{200, kb10}, 100, 20, 4},
		{"?limit=invalid", Stats{799, kb10}, 100, 100, 10},
		{"?fieldSelector=metadata.name%3Dx", Stats{799, kb10}, 100, 1, 1},
		{"?watch=1&resourceVersion=5", Stats{799, kb10}, 100, 1, 1},
		{"?watch=1", Stats{799, kb10}, 100, 10, 8},
		{"?watch=1&resourceVersion=0", Stats{799, kb10}, 100, 10, 8},
		{"?watch=1&resourceVersion=5&sendInitialEvents=true", Stats{799, kb10}, 100, 10, 8},
		{"?watch=1&sendInitialEvents=maybe", Stats{799, kb10}, 100, 100, 10},
		{"?watch=1", Stats{1 << 60, 1 << 60}, 100, 10, 10},
		{"?resourceVersion=1&resourceVersionMatch=Exact", Stats{1 << 60, 1 << 60}, 7, 7, 7},
	}
	for _, tt := range tests {
		t.Run(tt.query, func(t *testing.T) {
			t.Parallel()
			for _, byCount := range []bool{false, true} {
				c := newControl(t, 10)
				c.config.ByCount = byCount
				c.config.Stats = func(context.Context) (Stats, bool) { return tt.stats, true }
				r := requestOf(t, "jane", "GET", "/api/v1/pods"+tt.query)
				work, _ := c.estimate(&flow{maxSeats: tt.max}, r, request.InfoFrom(r.Context()))
				want := tt.size
				if byCount {
					want = tt.byCount
				}
				if work != (fairqueue.Work{InitialSeats: want}) {
					t.Errorf("by count %v: %+v, want %d seats", byCount, work, want)
				}
			}
		})
	}
}

// TestMutatingWork checks the estimated work of a write by the number of watches that it notifies.
func TestMutatingWork(t *testing.T) {
	t.Parallel()
	c := newControl(t, 10)
	watch := func(url string, n int) {
		info := request.InfoFrom(requestOf(t, "jane", "GET", url).Context())
		for range n {
			c.AddWatch(info)
			t.Cleanup(func() { c.RemoveWatch(info) })
		}
	}
	watch("/api/v1/pods?watch=1", 5)
	watch("/api/v1/namespaces/a/pods?watch=1", 4)
	watch("/api/v1/namespaces/a/pods?watch=1&fieldSelector=metadata.name%3Dp", 16)
	watch("/apis/apps/v1/deployments?watch=1", 1000)
	for node := range 100 { // like kubelets, one of them with two watches
		watch(fmt.Sprintf("/api/v1/namespaces/c/pods?watch=1&fieldSelector=spec.nodeName%%3Dn%d", node), 1)
	}
	watch("/api/v1/namespaces/c/pods?watch=1&fieldSelector=spec.nodeName%3Dn1", 1)
	watch("/api/v1/namespaces/c/pods?watch=1&labelSelector=x,app+in+(a)", 3)
	watch("/api/v1/namespaces/c/pods?watch=1&labelSelector=app+in+(a,b)&fieldSelector=status.phase!%3DFailed", 7)
	tests := []struct {
		method, url string
		watches     int
		want        fairqueue.Work
	}{
		{"PUT", "/api/v1/namespaces/b/pods/p", 5, fairqueue.Work{InitialSeats: 1}},
		{"POST", "/api/v1/namespaces/a/pods", 9, fairqueue.Work{InitialSeats: 1}},
		{"POST", "/api/v1/namespaces/c/pods", 5 + 2 + 3 + 7, fairqueue.Work{InitialSeats: 1, FinalSeats: 2, AdditionalLatency: 5 * time.Millisecond}},
		{"DELETE", "/api/v1/namespaces/a/pods/p", 25, fairqueue.Work{InitialSeats: 1, FinalSeats: 3, AdditionalLatency: 5 * time.Millisecond}},
		{"PATCH", "/apis/apps/v1/namespaces/a/deployments/d", 1000, fairqueue.Work{InitialSeats: 1, FinalSeats: 10, AdditionalLatency: 50 * time.Millisecond}},
		{"GET", "/apis/apps/v1/namespaces/a/deployments/d", -1, fairqueue.Work{InitialSeats: 1}},
		{"POST", "/version", -1, fairqueue.Work{InitialSeats: 1}},
	}
	for _, tt := range tests {
		r := requestOf(t, "jane", tt.method, tt.url)
		work, watches := c.estimate(&flow{}, r, request.InfoFrom(r.Context()))
		if work != tt.want || watches != tt.watches {
			t.Errorf("%s %s: %+v for %d watches, want %+v for %d", tt.method, tt.url, work, watches, tt.want, tt.watches)
		}
	}

}

// TestWatchesRemoved checks that no data about ended watches is retained.
func TestWatchesRemoved(t *testing.T) {
	t.Parallel()
	var w watches
	info := &request.Info{Group: "g", Resource: "r", Namespace: "n"}
	selecting := &request.Info{Group: "g", Resource: "r", Namespace: "n", LabelSelector: "a=b"}
	w.add(selecting, 1)
	w.add(info, 1)
	w.add(selecting, -1)
	w.add(info, 1)
	w.add(info, -1)
	if got := w.notified(&request.Info{Group: "g", Resource: "r", Namespace: "n", Name: "x"}); got != 1 {
		t.Errorf("%d watches are notified, want 1", got)
	}
	w.add(info, -1)
	if len(w.byResource) != 0 {
		t.Errorf("watches by resource %v, want none", w.byResource)
	}
}

// TestRetryAfter checks that Retry-After increases up to 32 seconds while clients retry too early,
// and decreases afterwards.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	var r retryAfter
	second := int64(1_000_000)
	for range 100 {
		if got := r.reject(second); got != 1 {
			t.Fatalf("within a second: %d", got)
		}
	}
	var seen []int64
	for range 200 {
		second++
		var got int64
		for range 50 {
			got = r.reject(second)
		}
		if len(seen) == 0 || seen[len(seen)-1] != got {
			seen = append(seen, got)
		}
	}
	want := []int64{2, 4, 8, 16, 32}
	if len(seen) != len(want) || seen[0] != want[0] || seen[4] != want[4] {
		t.Errorf("Retry-After increases to %v, want %v", seen, want)
	}
	second += 1000
	for n := int64(31); n > 0; n-- {
		if got := r.reject(second); got != n {
			t.Fatalf("%d, want %d", got, n)
		}
		second += 100
	}
}
