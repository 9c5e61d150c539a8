package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
)

// eventTimeout is the timeout for expected events. It is reached only on failure.
const eventTimeout = time.Minute

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(eventTimeout); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, eventTimeout)
		}
	}
}

// mustPut retries a put until it is acknowledged.
func mustPut(t *testing.T, s *Store, key, value string) kv.Revision {
	t.Helper()
	var rev kv.Revision
	eventually(t, "put of "+key, func() bool {
		res, err := s.Commit(t.Context(), kv.Op{Key: key, Value: []byte(value), Expect: kv.AnyRevision})
		if err != nil && !errors.Is(err, kv.ErrUnavailable) {
			t.Fatalf("put of %s: %v", key, err)
		}
		rev = res.Revision
		return err == nil
	})
	return rev
}

// follow receives batches up to a revision, and checks that events are in order and without
// duplicates.
type follow struct {
	t        *testing.T
	w        kv.Watch
	progress kv.Revision
	all      []kv.Event
}

func newFollow(t *testing.T, s *Store, prefix string) *follow {
	t.Helper()
	w, err := s.Watch(t.Context(), prefix, kv.PrefixEnd(prefix), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return &follow{t: t, w: w}
}

func (f *follow) until(rev kv.Revision) {
	f.t.Helper()
	timeout := time.After(eventTimeout)
	for f.progress < rev {
		select {
		case b, ok := <-f.w.Batches():
			if !ok {
				f.t.Fatalf("the watch ended at revision %d: %v", f.progress, f.w.Err())
			}
			for _, ev := range b.Events {
				if ev.Revision <= f.progress {
					f.t.Fatalf("event of revision %d after progress %d", ev.Revision, f.progress)
				}
				f.progress = ev.Revision
			}
			f.all = append(f.all, b.Events...)
			f.progress = max(f.progress, b.Revision)
		case <-timeout:
			f.t.Fatalf("the watch is at revision %d, not %d, after %s", f.progress, rev, eventTimeout)
		}
	}
}

// history compares the received events with the history in etcd.
func (f *follow) history(s *Store, prefix string, from kv.Revision) {
	f.t.Helper()
	w, err := s.Watch(f.t.Context(), prefix, kv.PrefixEnd(prefix), from)
	if err != nil {
		f.t.Fatal(err)
	}
	defer w.Stop()
	again := &follow{t: f.t, w: w}
	again.until(f.all[len(f.all)-1].Revision)
	if len(again.all) != len(f.all) {
		f.t.Fatalf("the watch has %d events, history has %d", len(f.all), len(again.all))
	}
	for i, ev := range again.all {
		if ev.Revision != f.all[i].Revision || ev.Key != f.all[i].Key || !bytes.Equal(ev.Value, f.all[i].Value) {
			f.t.Fatalf("event %d is %v, history has %v", i, f.all[i], ev)
		}
	}
}

// TestMemberLost checks that requests and watches continue while the leader of three members is stopped.
func TestMemberLost(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Members: 3})
	s := open(t, Config{Endpoints: c.URLs()})
	f := newFollow(t, s, "/a/")
	first := mustPut(t, s, "/a/0", "0")
	for i, m := range []*etcdtest.Member{leader(t, c), leader(t, c)} {
		m.Stop()
		for j := range 20 {
			mustPut(t, s, fmt.Sprintf("/a/%d", j), fmt.Sprint(i))
		}
		if _, err := s.Range(t.Context(), kv.RangeRequest{}); err != nil {
			t.Errorf("range: %v", err)
		}
		m.Restart()
	}
	last := mustPut(t, s, "/a/last", "x")
	f.until(last)
	f.history(s, "/a/", first)
}

func leader(t *testing.T, c *etcdtest.Cluster) *etcdtest.Member {
	t.Helper()
	var found *etcdtest.Member
	eventually(t, "election", func() bool {
		for _, m := range c.Members {
			if m.IsLeader() {
				found = m
			}
		}
		return found != nil
	})
	return found
}

// TestPartition checks that requests succeed while one member is reachable only for clients, and that a watch
// on that member moves to another member.
func TestPartition(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped with -short: TestMemberLost stops a member")
	}
	c := etcdtest.Start(t, etcdtest.Options{Members: 3})
	alone := leader(t, c)
	s := open(t, Config{Endpoints: c.URLs()})
	var follows []*follow
	for range 3 { // each on a different member
		follows = append(follows, newFollow(t, s, "/a/"))
	}
	first := mustPut(t, s, "/a/0", "0")
	alone.Isolate()
	eventually(t, "another leader", func() bool {
		for _, m := range c.Members {
			if m != alone && m.IsLeader() {
				return true
			}
		}
		return false
	})
	var last kv.Revision
	for i := range 30 {
		last = mustPut(t, s, fmt.Sprintf("/a/%d", i%7), fmt.Sprint(i))
		e, at, err := s.Get(t.Context(), fmt.Sprintf("/a/%d", i%7), 0)
		if err != nil || e == nil || string(e.Value) != fmt.Sprint(i) || at < last {
			t.Fatalf("read after write %d: %v at %d, %v", i, e, at, err)
		}
	}
	for _, f := range follows {
		f.until(last)
	}
	alone.Rejoin()
	last = mustPut(t, s, "/a/last", "x")
	for _, f := range follows {
		f.until(last)
		f.history(s, "/a/", first)
	}
}

// TestOutage checks that requests fail with kv.ErrUnavailable within the request timeout while etcd
// is stopped, and that requests and watches continue after it has restarted.
func TestOutage(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	s := open(t, Config{Endpoints: c.URLs(), RequestTimeout: 500 * time.Millisecond})
	f := newFollow(t, s, "/a/")
	first := mustPut(t, s, "/a/1", "x")
	c.Members[0].Stop()
	for range 3 {
		if _, _, err := s.Get(t.Context(), "/a/1", 0); !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("get: %v", err)
		}
		if _, err := s.Commit(t.Context(), kv.Op{Key: "/a/1", Expect: kv.AnyRevision}); !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("commit: %v", err)
		}
		if _, err := s.Watch(t.Context(), "", "", 0); !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("watch: %v", err)
		}
		if _, err := s.Watch(t.Context(), "", "", first); !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("watch from a revision: %v", err)
		}
		if _, err := s.Commit(t.Context(), kv.Op{Key: "/a/1", TTL: time.Hour, Expect: kv.AnyRevision}); !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("commit with a lease: %v", err)
		}
		if err := s.Health(t.Context()); !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("health: %v", err)
		}
		if err := s.RequestProgress(t.Context()); !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("progress: %v", err)
		}
	}
	c.Members[0].Restart()
	eventually(t, "health", func() bool { return s.Health(t.Context()) == nil })
	f.until(mustPut(t, s, "/a/2", "y"))
	if len(f.all) != 2 {
		t.Errorf("events: %v", f.all)
	}
	f.history(s, "/a/", first)
}

// TestUnresponsiveMember checks that requests succeed after a delay if a member accepts connections but never
// responds.
func TestUnresponsiveMember(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped with -short: TestMemberLost stops a member")
	}
	c := etcdtest.Start(t, etcdtest.Options{Members: 3})
	s := open(t, Config{Endpoints: c.URLs(), RequestTimeout: 2 * time.Second})
	mustPut(t, s, "/a/1", "x")
	c.Members[0].Freeze()
	for range 6 {
		if _, _, err := s.Get(t.Context(), "/a/1", 0); err != nil {
			t.Errorf("get: %v", err)
		}
	}
	for _, m := range c.Members[1:] {
		m.Freeze()
	}
	if err := s.Health(t.Context()); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("health: %v", err)
	}
	for _, m := range c.Members {
		m.Thaw()
	}
	mustPut(t, s, "/a/2", "x")
}

// TestLostConnections checks watches and writes while connections are closed repeatedly.
func TestLostConnections(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	s := open(t, Config{Endpoints: c.URLs()})
	f := newFollow(t, s, "/a/")
	first := mustPut(t, s, "/a/first", "x")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 15 {
			c.Members[0].Disconnect()
			time.Sleep(30 * time.Millisecond)
		}
	}()
	var last kv.Revision
	for i := 0; ; i++ {
		last = mustPut(t, s, fmt.Sprintf("/a/%d", i%10), fmt.Sprint(i))
		select {
		case <-done:
		default:
			continue
		}
		break
	}
	f.until(last)
	f.history(s, "/a/", first)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{TLS: true})
	config := Config{Endpoints: c.URLs(), CAFile: c.Files.CA, CertFile: c.Files.ClientCert, KeyFile: c.Files.ClientKey, RequestTimeout: 10 * time.Second}
	s := open(t, config)
	mustPut(t, s, "/a", "x")
	var copied bytes.Buffer
	if _, err := s.Snapshot(t.Context(), &copied); err != nil {
		t.Errorf("snapshot: %v", err)
	}
	for name, change := range map[string]struct {
		change  func(*Config)
		wantErr string
	}{
		"no client certificate": {func(c *Config) { c.CertFile, c.KeyFile = "", "" }, ""},
		"no authority":          {func(c *Config) { c.CAFile = "" }, "unknown authority"},
		"plain text":            {func(c *Config) { *c = Config{Endpoints: []string{strings.Replace(c.Endpoints[0], "https", "http", 1)}} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wrong := config
			change.change(&wrong)
			s := open(t, wrong)
			if err := s.Health(t.Context()); !errors.Is(err, kv.ErrUnavailable) || !strings.Contains(err.Error(), change.wantErr) {
				t.Error(err)
			}
		})
	}
	missing := config
	missing.CertFile = filepath.Join(t.TempDir(), "none")
	if _, err := Open(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("open with a missing certificate file: %v", err)
	}
}

// TestRenewedFiles checks that new connections use the current certificate files.
func TestRenewedFiles(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{TLS: true})
	s := open(t, Config{Endpoints: c.URLs(), CAFile: c.Files.CA, CertFile: c.Files.ClientCert, KeyFile: c.Files.ClientKey})
	mustPut(t, s, "/a", "x")
	c.Members[0].Stop()
	c.RenewFiles(t)
	c.Members[0].Restart()
	mustPut(t, s, "/a", "y")
}

// TestSize checks the metric of the database size, which is requested once per interval.
func TestSize(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	size := func(r *prometheus.Registry) (string, float64) {
		t.Helper()
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() == "apiserver_storage_size_bytes" {
				m := family.Metric[0]
				return m.Label[0].GetName() + "=" + m.Label[0].GetValue(), m.Gauge.GetValue()
			}
		}
		return "", 0
	}
	registry, without := prometheus.NewRegistry(), prometheus.NewRegistry()
	open(t, Config{Endpoints: c.URLs(), Registerer: registry, SizeInterval: time.Hour})
	open(t, Config{Endpoints: c.URLs(), Registerer: without, SizeInterval: -1})
	label, bytes := size(registry)
	if label != "storage_cluster_id=etcd-0" || bytes < 4096 {
		t.Errorf("%s: %g bytes", label, bytes)
	}
	if label, _ := size(without); label != "" {
		t.Errorf("the disabled metric exists with the label %s", label)
	}
	c.Members[0].Stop()
	if _, again := size(registry); again != bytes {
		t.Errorf("the size changed from %g to %g bytes within an interval", bytes, again)
	}
}

// TestLeaseReuse checks that keys share leases for the configured duration.
func TestLeaseReuse(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	for _, tt := range []struct {
		reuse  time.Duration
		leases int
		lasts  int64
	}{{0, 1, 3600 + 60}, {10 * time.Second, 1, 3610}, {time.Hour, 1, 3600 + 180}, {-1, 3, 3600}} {
		s := open(t, Config{Endpoints: c.URLs(), LeaseReuse: tt.reuse})
		ids := map[int64]bool{}
		for range 3 {
			id, err := s.lease(t.Context(), time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			ids[id] = true
			granted, err := s.client.TimeToLive(t.Context(), clientv3.LeaseID(id))
			if err != nil || granted.GrantedTTL != tt.lasts {
				t.Errorf("reused for %s: a lease of %d s, %v", tt.reuse, granted.GrantedTTL, err)
			}
		}
		if len(ids) != tt.leases {
			t.Errorf("reused for %s: %d leases", tt.reuse, len(ids))
		}
	}
}

// TestAwait checks that Await blocks until etcd is available.
func TestAwait(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	c.Members[0].Stop()
	s := open(t, Config{Endpoints: c.URLs(), RequestTimeout: 300 * time.Millisecond})
	short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := s.Await(short); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("without etcd: %v", err)
	}
	up := make(chan error, 1)
	go func() { up <- s.Await(t.Context()) }()
	c.Members[0].Restart()
	if err := <-up; err != nil {
		t.Errorf("with etcd: %v", err)
	}
}
