package etcdtest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// patience is how long a member may take to start.
const patience = time.Minute

// Options say what cluster is wanted. The zero value is one member over http.
type Options struct {
	// Members is how many there are; 0 means 1.
	Members int
	// TLS makes clients use https and show a certificate; see Cluster.Files.
	TLS bool
	// SlowElections leaves etcd's own times; without it a member is missed after
	// a fraction of a second.
	SlowElections bool
	// QuotaBytes limits the database; 0 means etcd's default.
	QuotaBytes int64
	// Durable leaves etcd its fsyncs, for measurements.
	Durable bool
}

// Cluster is a cluster of etcd.
type Cluster struct {
	Members []*Member
	// Files are the certificates of a cluster with TLS.
	Files Files
}

// Member is a member of a cluster. Clients reach it through a proxy, and so do
// the other members.
type Member struct {
	t       testing.TB
	config  *embed.Config
	clients *proxy
	peers   *proxy
	links   *links

	mu   sync.Mutex
	etcd *embed.Etcd // nil while it is stopped
}

// Start starts a cluster and stops it with the test.
func Start(t testing.TB, opts Options) *Cluster {
	t.Helper()
	c := &Cluster{}
	n := max(opts.Members, 1)
	if opts.TLS {
		c.Files = newFiles(t)
	}
	shared := &links{cut: make(map[string]bool)}
	// The folder goes last: a member may still be writing when the test ends.
	dir := t.TempDir()
	var peers []string
	for i := range n {
		m := &Member{t: t, links: shared, config: embed.NewConfig()}
		m.config.Name = fmt.Sprintf("m%d", i)
		m.config.Dir = filepath.Join(dir, m.config.Name)
		m.configure(opts, c.Files)
		peers = append(peers, m.config.Name+"="+m.config.AdvertisePeerUrls[0].String())
		c.Members = append(c.Members, m)
	}
	var starting sync.WaitGroup
	errs := make([]error, n)
	for i, m := range c.Members {
		m.config.InitialCluster = strings.Join(peers, ",")
		starting.Go(func() { errs[i] = m.start() })
	}
	starting.Wait()
	t.Cleanup(func() {
		var stopping sync.WaitGroup
		for _, m := range c.Members {
			stopping.Go(m.close)
		}
		stopping.Wait()
	})
	for i, err := range errs {
		if err != nil {
			t.Fatalf("start member %d of etcd: %v", i, err)
		}
		// What a proxy knows of a link is the id of who dials.
		shared.own(c.Members[i].peers, c.Members[i].id())
	}
	return c
}

// URLs are those of the members, for clients.
func (c *Cluster) URLs() []string {
	var urls []string
	for _, m := range c.Members {
		urls = append(urls, m.URL())
	}
	return urls
}

// configure gives a member its addresses.
func (m *Member) configure(opts Options, files Files) {
	m.t.Helper()
	scheme := "http"
	if opts.TLS {
		scheme = "https"
		m.config.ClientTLSInfo = transport.TLSInfo{
			CertFile: files.ServerCert, KeyFile: files.ServerKey, TrustedCAFile: files.CA, ClientCertAuth: true,
		}
	}
	listen := func(scheme string) (own url.URL) {
		return url.URL{Scheme: scheme, Host: freeAddress(m.t)}
	}
	client, peer := listen(scheme), listen("http")
	m.clients = newProxy(m.t, client.Host, nil)
	m.peers = newProxy(m.t, peer.Host, m.links)
	m.config.ListenClientUrls = []url.URL{client}
	m.config.AdvertiseClientUrls = []url.URL{{Scheme: scheme, Host: m.clients.address()}}
	m.config.ListenPeerUrls = []url.URL{peer}
	m.config.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: m.peers.address()}}
	m.config.UnsafeNoFsync = !opts.Durable
	m.config.QuotaBackendBytes = opts.QuotaBytes
	m.config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	if !opts.SlowElections {
		m.config.TickMs, m.config.ElectionMs = 20, 200
	}
}

// freeAddress is one that had no listener a moment ago.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// URL is where clients reach the member.
func (m *Member) URL() string { return m.config.AdvertiseClientUrls[0].String() }

func (m *Member) start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, err := embed.StartEtcd(m.config)
	for try := 0; errors.Is(err, syscall.EADDRINUSE) && try < 5; try++ {
		m.move() // another process has got a port meanwhile
		e, err = embed.StartEtcd(m.config)
	}
	if err != nil {
		return err
	}
	select {
	case <-e.Server.ReadyNotify():
		m.etcd = e
		return nil
	case err := <-e.Err():
		e.Close()
		return err
	case <-time.After(patience):
		e.Close()
		return fmt.Errorf("it was not ready within %s", patience)
	}
}

// move gives the member other addresses of its own. Those that others know are
// its proxies'.
func (m *Member) move() {
	for p, own := range map[*proxy]*url.URL{m.clients: &m.config.ListenClientUrls[0], m.peers: &m.config.ListenPeerUrls[0]} {
		own.Host = freeAddress(m.t)
		p.mu.Lock()
		p.target = own.Host
		p.mu.Unlock()
	}
}

func (m *Member) id() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.etcd.Server.MemberID().String()
}

// Leads reports whether the member is the leader.
func (m *Member) Leads() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.etcd != nil && m.etcd.Server.Leader() == m.etcd.Server.MemberID()
}

// Stop stops the member, at once for its clients.
func (m *Member) Stop() {
	m.clients.breakOff()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.etcd != nil {
		m.etcd.Close()
		m.etcd = nil
	}
}

// Restart starts a member that was stopped.
func (m *Member) Restart() {
	m.t.Helper()
	if err := m.start(); err != nil {
		m.t.Fatalf("restart %s: %v", m.config.Name, err)
	}
}

// Isolate cuts the member off from the other members; clients still reach it.
func (m *Member) Isolate() { m.links.set(m.id(), true) }

// Rejoin ends Isolate.
func (m *Member) Rejoin() { m.links.set(m.id(), false) }

// Disconnect breaks the connections of clients; new ones are served.
func (m *Member) Disconnect() { m.clients.breakOff() }

// Freeze keeps the connections of clients open and passes nothing on.
func (m *Member) Freeze() { m.clients.freeze(true) }

// Thaw ends Freeze.
func (m *Member) Thaw() { m.clients.freeze(false) }

func (m *Member) close() {
	m.clients.close()
	m.peers.close()
	m.Stop()
}

// TLSConfig is what a client of a cluster with TLS needs.
func (c *Cluster) TLSConfig(t testing.TB) *tls.Config {
	t.Helper()
	info := transport.TLSInfo{CertFile: c.Files.ClientCert, KeyFile: c.Files.ClientKey, TrustedCAFile: c.Files.CA}
	config, err := info.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// writeFile writes a file of a test, for its owner alone.
func writeFile(t testing.TB, path string, write func(io.Writer) error) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := write(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
