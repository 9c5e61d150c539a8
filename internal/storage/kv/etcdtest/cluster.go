package etcdtest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// patience is how long a member may take to start.
	patience = time.Minute
	// statusPatience is the timeout of one status request.
	statusPatience = 10 * time.Second
)

// Options configure a cluster. The zero value is one member over http.
type Options struct {
	// Members is how many there are; 0 means 1.
	Members int
	// TLS makes clients use https and show a certificate; see Cluster.Files.
	TLS bool
	// SlowElections uses etcd's default timeouts. Otherwise a failed member is detected after a
	// fraction of a second.
	SlowElections bool
	// QuotaBytes limits the database; 0 means etcd's default.
	QuotaBytes int64
	// Durable enables etcd's fsyncs, for measurements.
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
	name    string
	dir     string
	flags   []string
	scheme  string // of clients
	clients *proxy // to where the member listens for clients
	peers   *proxy // to where it listens for other members
	links   *links
	status  *http.Client
	id      string // hexadecimal, as members name each other

	mu      sync.Mutex
	process *process // nil while it is stopped
}

// Start starts a cluster and stops it with the test.
func Start(t testing.TB, opts Options) *Cluster {
	t.Helper()
	c := &Cluster{}
	n := max(opts.Members, 1)
	if opts.TLS {
		c.Files = newFiles(t)
	}
	binary, err := etcdBinary()
	if err != nil {
		t.Fatal(err)
	}
	shared := &links{cut: make(map[string]bool)}
	// The folder is removed last: a member may still be writing when the test ends.
	dir := t.TempDir()
	var peers []string
	for i := range n {
		name := fmt.Sprintf("m%d", i)
		m := &Member{t: t, name: name, dir: filepath.Join(dir, name), links: shared}
		m.configure(opts, c)
		peers = append(peers, m.name+"=http://"+m.peers.address())
		c.Members = append(c.Members, m)
	}
	var starting sync.WaitGroup
	errs := make([]error, n)
	for i, m := range c.Members {
		m.flags = append(m.flags, "--initial-cluster="+strings.Join(peers, ","))
		starting.Go(func() { errs[i] = m.start(binary) })
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
		// A proxy identifies a link by the ID of the connecting member.
		shared.own(c.Members[i].peers, c.Members[i].id)
	}
	return c
}

// RenewFiles replaces the certificates by certificates of a new CA. Members use them after a
// restart.
func (c *Cluster) RenewFiles(t testing.TB) {
	t.Helper()
	c.Files.write(t)
	for _, m := range c.Members {
		m.status.Transport = &http.Transport{DisableKeepAlives: true, TLSClientConfig: c.TLSConfig(t)}
	}
}

// URLs returns the client URLs of the members.
func (c *Cluster) URLs() []string {
	var urls []string
	for _, m := range c.Members {
		urls = append(urls, m.URL())
	}
	return urls
}

// configure sets the addresses and flags of a member.
func (m *Member) configure(opts Options, c *Cluster) {
	m.t.Helper()
	m.clients = newProxy(m.t, freeAddress(m.t), nil)
	m.peers = newProxy(m.t, freeAddress(m.t), m.links)
	m.scheme, m.status = "http", &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: statusPatience}
	if opts.TLS {
		m.scheme = "https"
		m.status.Transport = &http.Transport{DisableKeepAlives: true, TLSClientConfig: c.TLSConfig(m.t)}
		m.flags = append(m.flags, "--cert-file="+c.Files.ServerCert, "--key-file="+c.Files.ServerKey,
			"--trusted-ca-file="+c.Files.CA, "--client-cert-auth")
	}
	m.flags = append(m.flags, "--name="+m.name, "--data-dir="+m.dir, "--log-level=warn",
		"--advertise-client-urls="+m.URL(), "--initial-advertise-peer-urls=http://"+m.peers.address(),
		"--quota-backend-bytes="+strconv.FormatInt(opts.QuotaBytes, 10))
	if !opts.Durable {
		m.flags = append(m.flags, "--unsafe-no-fsync")
	}
	if !opts.SlowElections {
		m.flags = append(m.flags, "--heartbeat-interval=20", "--election-timeout=200")
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
func (m *Member) URL() string { return m.scheme + "://" + m.clients.address() }

// start starts the member, at other addresses where another program has its own,
// and returns when it can serve.
func (m *Member) start(binary string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for try := 0; ; try++ {
		p, err := startProcess(binary, append(slices.Clip(m.flags),
			"--listen-client-urls="+m.scheme+"://"+m.clients.to(), "--listen-peer-urls=http://"+m.peers.to()))
		if err != nil {
			return err
		}
		if err = m.awaitReady(p); err == nil {
			m.process = p
			return nil
		}
		p.stop()
		if try == 5 || !strings.Contains(p.output.String(), "address already in use") {
			return fmt.Errorf("%w\n%s", err, p.output.String())
		}
		m.clients.move(freeAddress(m.t))
		m.peers.move(freeAddress(m.t))
	}
}

// awaitReady waits until the member serves reads, for which it needs a leader, and
// notes its id.
func (m *Member) awaitReady(p *process) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		select {
		case <-p.running.Done():
			return fmt.Errorf("it ended: %w", p.err)
		default:
		}
		if m.isReady(p) {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it was not ready within %s", patience)
		}
	}
	status, err := m.askStatus()
	if err != nil {
		return err
	}
	id, err := strconv.ParseUint(status.Header.MemberID, 10, 64)
	m.id = strconv.FormatUint(id, 16)
	return err
}

func (m *Member) isReady(p *process) bool {
	req, err := http.NewRequestWithContext(p.running, http.MethodGet, m.scheme+"://"+m.clients.to()+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := m.status.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// memberStatus is etcd's StatusResponse in JSON, as far as it is of interest.
type memberStatus struct {
	Header struct {
		MemberID string `json:"member_id"`
	} `json:"header"`
	Leader string `json:"leader"`
}

func (m *Member) askStatus() (status memberStatus, err error) {
	return status, m.maintain("status", "{}", &status)
}

// maintain calls a method of etcd's maintenance API, of the member itself and not
// through its proxy.
func (m *Member) maintain(method, request string, answer any) error {
	resp, err := m.status.Post(m.scheme+"://"+m.clients.to()+"/v3/maintenance/"+method, "application/json", strings.NewReader(request))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		return fmt.Errorf("read the %s of %s: %w", method, m.name, err)
	}
	return nil
}

// Fill raises the alarm of a member whose database has reached its quota. Until Drain, the cluster
// accepts deletions only.
func (m *Member) Fill() error { return m.alarm("ACTIVATE", "NOSPACE") }

// Drain ends Fill.
func (m *Member) Drain() error { return m.alarm("DEACTIVATE", "NOSPACE") }

// Corrupt raises the alarm of a member with inconsistent data. Until Mend, the cluster accepts no
// writes.
func (m *Member) Corrupt() error { return m.alarm("ACTIVATE", "CORRUPT") }

// Mend ends Corrupt.
func (m *Member) Mend() error { return m.alarm("DEACTIVATE", "CORRUPT") }

func (m *Member) alarm(action, alarm string) error {
	id, err := strconv.ParseUint(m.id, 16, 64)
	if err != nil {
		return err
	}
	var answer struct{ Message string }
	err = m.maintain("alarm", fmt.Sprintf(`{"action":%q,"memberID":"%d","alarm":%q}`, action, id, alarm), &answer)
	if err == nil && answer.Message != "" {
		err = errors.New(answer.Message)
	}
	if err != nil {
		return fmt.Errorf("%s the alarm %s of %s: %w", action, alarm, m.name, err)
	}
	return nil
}

// Defragment defragments the database of the member, which does not respond during that time.
func (m *Member) Defragment() error {
	var answer struct{ Message string }
	if err := m.maintain("defragment", "{}", &answer); err != nil {
		return fmt.Errorf("defragment %s: %w", m.name, err)
	}
	if answer.Message != "" {
		return fmt.Errorf("defragment %s: %s", m.name, answer.Message)
	}
	return nil
}

// Leads reports whether the member is the leader.
func (m *Member) Leads() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process == nil {
		return false
	}
	status, err := m.askStatus()
	return err == nil && status.Leader == status.Header.MemberID
}

// Stop stops the member, at once for its clients.
func (m *Member) Stop() {
	m.clients.breakOff()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process != nil {
		m.process.stop()
		m.process = nil
	}
}

// Restart starts a member that was stopped.
func (m *Member) Restart() {
	m.t.Helper()
	binary, err := etcdBinary()
	if err != nil {
		m.t.Fatal(err)
	}
	if err := m.start(binary); err != nil {
		m.t.Fatalf("restart %s: %v", m.name, err)
	}
}

// Isolate cuts the member off from the other members; clients still reach it.
func (m *Member) Isolate() { m.links.set(m.id, true) }

// Rejoin ends Isolate.
func (m *Member) Rejoin() { m.links.set(m.id, false) }

// Disconnect breaks the connections of clients; new ones are served.
func (m *Member) Disconnect() { m.clients.breakOff() }

// Freeze stops forwarding data on the connections of clients without closing them.
func (m *Member) Freeze() { m.clients.freeze(true) }

// Thaw ends Freeze.
func (m *Member) Thaw() { m.clients.freeze(false) }

func (m *Member) close() {
	m.clients.close()
	m.peers.close()
	m.Stop()
}

// TLSConfig returns the TLS configuration of a client.
func (c *Cluster) TLSConfig(t testing.TB) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(c.Files.ClientCert, c.Files.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(c.Files.CA)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, RootCAs: roots}
}

// writeFile writes a file that only its owner can read.
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
