package etcd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config Config
		want   string // "" if the config is valid
	}{
		"one server":         {Config{Endpoints: []string{"http://127.0.0.1:2379"}}, ""},
		"a slash":            {Config{Endpoints: []string{"https://etcd.example:2379/"}, CAFile: "x"}, ""},
		"none":               {Config{}, "no etcd server given"},
		"no scheme":          {Config{Endpoints: []string{"127.0.0.1:2379"}}, `etcd server "127.0.0.1:2379" is not a URL such as https://10.0.0.1:2379`},
		"a path":             {Config{Endpoints: []string{"http://etcd/v3"}}, "is not a URL such as"},
		"two schemes":        {Config{Endpoints: []string{"http://a:1", "https://b:1"}}, "some etcd servers are http and others https"},
		"half a certificate": {Config{Endpoints: []string{"https://a:1"}, CertFile: "x"}, "must be given together"},
		"an unused CA file":  {Config{Endpoints: []string{"http://a:1"}, CAFile: "x"}, "its servers are http"},
		"a negative timeout": {Config{Endpoints: []string{"http://a:1"}, DialTimeout: -1}, "negative"},
	} {
		err := tt.config.Check()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// TestLeases checks that keys with similar expiration times share a lease, up to 1000 keys per lease.
func TestLeases(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Endpoints: etcdtest.Start(t, etcdtest.Options{}).URLs()})
	put := func(i int, ttl time.Duration) {
		t.Helper()
		if res, err := s.Commit(t.Context(), kv.Op{Key: fmt.Sprintf("/a/%05d", i), TTL: ttl, Expect: kv.AnyRevision}); err != nil || !res.Committed {
			t.Fatal(res, err)
		}
	}
	for i := range maxLeaseKeys + 10 {
		put(i, time.Hour)
	}
	put(maxLeaseKeys+10, 2*time.Hour)
	leases, err := s.client.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(leases.Leases) != 3 {
		t.Errorf("%d leases for two TTLs and %d keys", len(leases.Leases), maxLeaseKeys+11)
	}
	for _, l := range leases.Leases {
		left, err := s.client.TimeToLive(t.Context(), l.ID)
		if err != nil || left.GrantedTTL != 3660 && left.GrantedTTL != 7260 {
			t.Errorf("lease of %ds, %v", left.GrantedTTL, err)
		}
		// The put below must replace the revoked lease.
		if _, err := s.client.Revoke(t.Context(), l.ID); err != nil {
			t.Fatal(err)
		}
	}
	put(1, time.Hour)
}

// TestCompactionProtocol checks that two clients compact alternately, once per interval, to the newest
// revision of one interval ago, and that they write the same key as kube-apiserver.
func TestCompactionProtocol(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	one, two := open(t, Config{Endpoints: c.URLs()}), open(t, Config{Endpoints: c.URLs()})
	round := func(s *Store, before compactor) compactor {
		t.Helper()
		after, err := s.compactOnce(t.Context(), before)
		if err != nil {
			t.Fatal(err)
		}
		return after
	}
	agreed := func(s *Store, want kv.Revision) {
		t.Helper()
		if got, err := s.CompactedRevision(t.Context()); err != nil || got != want {
			t.Errorf("compacted to %d, %v; want %d", got, err, want)
		}
	}
	r1 := mustPut(t, one, "/a", "1")
	c1, c2 := round(one, compactor{}), round(two, compactor{})
	if c1.version != 1 || c2.version != 1 || c1.revision != r1+1 || c2.revision != r1+1 {
		t.Errorf("first rounds: %+v, %+v", c1, c2)
	}
	agreed(two, 0)
	r2 := mustPut(t, one, "/a", "2")
	r3 := mustPut(t, one, "/a", "3")
	c2 = round(two, c2) // the second client is first this time
	agreed(one, r1+1)
	if c1 = round(one, c1); c1 != (compactor{version: 2, revision: r3 + 1, agreed: r1 + 1}) {
		t.Errorf("late round of the first client: %+v", c1)
	}
	if _, _, err := one.Get(t.Context(), "/a", r1); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("get at a compacted revision: %v", err)
	}
	if e, _, err := one.Get(t.Context(), "/a", r2); err != nil || string(e.Value) != "2" {
		t.Errorf("get at a retained revision: %v, %v", e, err)
	}
	round(one, c1)
	agreed(two, r3+1)
	e, _, err := two.Get(t.Context(), "compact_rev_key", 0)
	if err != nil || string(e.Value) != strconv.FormatInt(int64(r3+1), 10) {
		t.Errorf("compact_rev_key is %v, %v", e, err)
	}
	// A watch ends with ErrCompacted after another server has compacted its history.
	w, err := two.Watch(t.Context(), "", "", r2)
	if err != nil {
		t.Fatal(err)
	}
	for range w.Batches() {
	}
	if !errors.Is(w.Err(), kv.ErrCompacted) {
		t.Errorf("watch of compacted history: %v", w.Err())
	}
}

// TestCompactedPrevious checks that a watch ends with ErrCompacted, instead of omitting the event, if another
// client has compacted the previous value of an event.
func TestCompactedPrevious(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Endpoints: etcdtest.Start(t, etcdtest.Options{}).URLs()})
	for name, test := range map[string]struct {
		op   kv.Op
		want error
	}{
		"update":   {kv.Op{Key: "/a", Value: []byte("2"), Expect: kv.AnyRevision}, kv.ErrCompacted},
		"deletion": {kv.Op{Key: "/a", Kind: kv.OpDelete, Expect: kv.AnyRevision}, kv.ErrCompacted},
		"creation": {kv.Op{Key: "/b", Value: []byte("2"), Expect: kv.AnyRevision}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			mustPut(t, s, "/a", "1")
			res, err := s.Commit(t.Context(), test.op)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.client.Compact(t.Context(), int64(res.Revision)); err != nil {
				t.Fatal(err)
			}
			mustPut(t, s, "/a", "3")
			w, err := s.Watch(t.Context(), "/", "0", res.Revision)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			if err := s.RequestProgress(t.Context()); err != nil { // a watch that omits the event reports progress
				t.Fatal(err)
			}
			batch, ok := <-w.Batches()
			switch {
			case !ok && (test.want == nil || !errors.Is(w.Err(), test.want)):
				t.Errorf("the watch ended with %v, want %v", w.Err(), test.want)
			case ok && test.want != nil:
				t.Errorf("the watch returned %+v, want %v", batch, test.want)
			case ok && (len(batch.Events) == 0 || batch.Events[0].Revision != res.Revision):
				t.Errorf("the watch returned %+v, want an event of revision %d", batch, res.Revision)
			}
		})
	}
}

// TestCompactPeriodically checks that history is compacted once per CompactionInterval.
func TestCompactPeriodically(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Endpoints: etcdtest.Start(t, etcdtest.Options{}).URLs(), CompactionInterval: 20 * time.Millisecond})
	rev := mustPut(t, s, "/a", "1")
	mustPut(t, s, "/a", "2")
	eventually(t, "compaction", func() bool {
		_, _, err := s.Get(t.Context(), "/a", rev)
		return errors.Is(err, kv.ErrCompacted)
	})
}

// TestCorrupt checks that writes and Health return kv.ErrCorrupt while members have different data.
func TestCorrupt(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	s := open(t, Config{Endpoints: c.URLs()})
	if err := c.Members[0].RaiseCorrupt(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), kv.Op{Key: "a", Value: []byte("x")}); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("write: %v", err)
	}
	if err := s.Health(t.Context()); !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), "differs from the data of the other members") {
		t.Errorf("health: %v", err)
	}
	if err := c.Members[0].ClearCorrupt(); err != nil {
		t.Fatal(err)
	}
	if err := s.Health(t.Context()); err != nil {
		t.Errorf("health afterwards: %v", err)
	}
}

// TestQuotaReached checks that writes and Health return kv.ErrNoSpace when the database has reached its
// quota.
func TestQuotaReached(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{QuotaBytes: 1 << 20})
	s := open(t, Config{Endpoints: c.URLs()})
	var err error
	// etcd compares the file size with the quota, and writes to the file ten times per second. The number of
	// accepted writes therefore depends on their speed.
	for i := range 2000 {
		if _, err = s.Commit(t.Context(), kv.Op{Key: fmt.Sprint(i), Value: make([]byte, 100<<10)}); err != nil {
			break
		}
	}
	if !errors.Is(err, kv.ErrNoSpace) {
		t.Fatalf("write to a full store: %v", err)
	}
	if err := s.Health(t.Context()); !errors.Is(err, kv.ErrNoSpace) {
		t.Errorf("health: %v", err)
	}
	if _, _, err := s.Get(t.Context(), "0", 0); err != nil {
		t.Errorf("read from a full store: %v", err)
	}
	another := open(t, Config{Endpoints: c.URLs()}) // no write of this client was rejected
	if err := another.Await(t.Context()); err != nil {
		t.Errorf("read of another client: %v", err)
	}
	if err := another.Health(t.Context()); !errors.Is(err, kv.ErrNoSpace) || !strings.Contains(err.Error(), "compact, defragment, and disarm the alarm") {
		t.Errorf("health of another client: %v", err)
	}
	// Free space in the same way as an operator.
	if _, err := s.Commit(t.Context(), kv.Op{Key: "0", Kind: kv.OpDelete, Expect: kv.AnyRevision}); err != nil {
		t.Errorf("delete in a full store: %v", err)
	}
	if _, err := s.client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{s, another} {
		if err := s.Health(t.Context()); err != nil {
			t.Errorf("health after the alarm: %v", err)
		}
	}
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Endpoints: etcdtest.Start(t, etcdtest.Options{}).URLs()})
	rev := mustPut(t, s, "/a", "needle")
	var copied bytes.Buffer
	got, err := s.Snapshot(t.Context(), &copied)
	if err != nil || got != rev {
		t.Fatalf("snapshot at %d, %v; want %d", got, err, rev)
	}
	if !bytes.Contains(copied.Bytes(), []byte("needle")) {
		t.Error("the snapshot does not contain the written value")
	}
	if _, err := s.Snapshot(t.Context(), failing{}); !errors.Is(err, errFailing) {
		t.Errorf("snapshot to a failing writer: %v", err)
	}
	sum := checksumWriter{w: &bytes.Buffer{}, sum: sha256.New()}
	raw := copied.Bytes()
	raw[10]++
	for len(raw) > 0 {
		n := min(len(raw), 1000)
		_, _ = sum.Write(raw[:n])
		raw = raw[n:]
	}
	if err := sum.check(); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("verification of a damaged snapshot: %v", err)
	}
}

var errFailing = errors.New("write failed")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFailing }

// TestRevisionsAreShared checks that concurrent calls of CurrentRevision, which share requests to etcd,
// return revisions that are new enough.
func TestRevisionsAreShared(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Endpoints: etcdtest.Start(t, etcdtest.Options{}).URLs()})
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error)
	for range 50 {
		go func() {
			for range 20 {
				rev := kv.Revision(0)
				res, err := s.Commit(ctx, kv.Op{Key: "/a", Expect: kv.AnyRevision})
				if err == nil {
					rev, err = s.CurrentRevision(ctx)
				}
				if err == nil && rev < res.Revision {
					err = fmt.Errorf("newest is %d after %d was acknowledged", rev, res.Revision)
				}
				if err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range 50 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	cancel()
	if _, err := s.CurrentRevision(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("call with a canceled context: %v", err)
	}
}
