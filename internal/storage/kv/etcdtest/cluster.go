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
	// startTimeout is the timeout for starting a member.
	startTimeout = time.Minute
	// statusTimeout is the timeout of one status request.
	statusTimeout = 10 * time.Second
)

// Options configure a cluster. The zero value is one member over http.
type Options struct {
	// Members is the number of members; 0 means 1.
	Members int
	// TLS requires https and a client certificate; see Cluster.Files.
	TLS bool
	// SlowElections uses etcd's default timeouts. Otherwise, shorter timeouts detect a failed member within a
	// fraction of a second, but can cause elections on a loaded machine.
	SlowElections bool
	// QuotaBytes is the maximum size of the database in bytes; 0 means etcd's default.
	QuotaBytes int64
	// Durable enables etcd's fsyncs, for measurements.
	Durable bool
}

// Cluster is a running etcd cluster of a test.
type Cluster struct {
	Members []*Member
	// Files contains the paths of the certificates and keys if Options.TLS is set.
	Files Files
}

// Member is a member of a cluster. Clients and other members connect to it through proxies. Methods without
// an error result fail the test on failure.
type Member struct {
	t       testing.TB
	name    string
	dir     string
	flags   []string
	scheme  string // of the client URL
	clients *proxy // forwards to the client address
	peers   *proxy // forwards to the peer address
	links   *links
	status  *http.Client
	id      string // hexadecimal, as in the header X-Server-From

	mu      sync.Mutex
	process *process // nil while the member is stopped
}

// Start starts a cluster, waits until it serves reads, and stops it when the test ends.
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
	// The directory is created before the cleanup below is registered, so that it is removed after all
	// members have stopped.
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
		shared.setOwner(c.Members[i].peers, c.Members[i].id)
	}
	return c
}

// RenewFiles replaces the certificates with certificates of a new CA. Members use the new certificates after
// a restart.
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
	m.clients = newProxy(m.t, nil)
	m.peers = newProxy(m.t, m.links)
	m.scheme, m.status = "http", &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: statusTimeout}
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

// freeAddress returns a loopback address without a listener. Another process may use it afterwards.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// URL returns the client URL of the member, which is the URL of its proxy.
func (m *Member) URL() string { return m.scheme + "://" + m.clients.address() }

// start starts the member and waits until it serves reads. If another process uses one of the addresses,
// start tries again with other addresses.
func (m *Member) start(binary string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for try := 0; ; try++ {
		for _, proxy := range []*proxy{m.clients, m.peers} {
			if proxy.currentTarget() == "" {
				proxy.setTarget(freeAddress(m.t))
			}
		}
		p, err := startProcess(binary, append(slices.Clip(m.flags),
			"--listen-client-urls="+m.scheme+"://"+m.clients.currentTarget(), "--listen-peer-urls=http://"+m.peers.currentTarget()))
		if err != nil {
			return err
		}
		if err = m.awaitReady(p); err == nil {
			m.process = p
			return nil
		}
		m.disconnect()
		p.stop()
		if try == 5 || !strings.Contains(p.output.String(), "address already in use") {
			return fmt.Errorf("%w\n%s", err, p.output.String())
		}
	}
}

// disconnect makes the proxies reject connections, because the member has ended or will end, and another
// process may then use its addresses.
func (m *Member) disconnect() {
	m.clients.setTarget("")
	m.peers.setTarget("")
}

// awaitReady waits until the member serves reads, which requires a leader, and sets id.
func (m *Member) awaitReady(p *process) error {
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(10 * time.Millisecond) {
		if m.isReady(p) {
			id, err := m.responderID()
			if err == nil {
				m.id = id
				return nil
			}
		}
		if p.running.Err() != nil {
			return fmt.Errorf("etcd exited: %w", p.err)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("etcd was not ready within %s", startTimeout)
		}
	}
}

func (m *Member) isReady(p *process) bool {
	req, err := http.NewRequestWithContext(p.running, http.MethodGet, m.scheme+"://"+m.clients.currentTarget()+"/readyz", nil)
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

// responderID returns the hexadecimal ID of the etcd member that serves the address of m. It returns an error
// if this is a member of another test.
func (m *Member) responderID() (string, error) {
	var list memberList
	if err := m.call("cluster/member/list", "{}", &list); err != nil {
		return "", err
	}
	for _, member := range list.Members {
		if member.ID == list.Header.MemberID && slices.Contains(member.PeerURLs, "http://"+m.peers.address()) {
			id, err := strconv.ParseUint(member.ID, 10, 64)
			return strconv.FormatUint(id, 16), err
		}
	}
	return "", fmt.Errorf("another etcd serves the address of %s", m.name)
}

// memberList contains the fields of etcd's MemberListResponse that this package uses, as JSON.
type memberList struct {
	Header struct {
		MemberID string `json:"member_id"` // ID of the responding member
	} `json:"header"`
	Members []struct {
		ID       string   `json:"ID"`
		PeerURLs []string `json:"peerURLs"`
	} `json:"members"`
}

// memberStatus contains the fields of etcd's StatusResponse that this package uses, as JSON.
type memberStatus struct {
	Header struct {
		MemberID string `json:"member_id"`
	} `json:"header"`
	Leader string `json:"leader"`
}

func (m *Member) getStatus() (status memberStatus, err error) {
	return status, m.call("maintenance/status", "{}", &status)
}

// call calls a method of etcd's API. It bypasses the proxy of the member.
func (m *Member) call(method, request string, response any) error {
	resp, err := m.status.Post(m.scheme+"://"+m.clients.currentTarget()+"/v3/"+method, "application/json", strings.NewReader(request))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(response); err != nil {
		return fmt.Errorf("read the %s of %s: %w", method, m.name, err)
	}
	return nil
}

// RaiseNoSpace raises etcd's NOSPACE alarm, as for a database that has reached its quota. Until
// ClearNoSpace, the cluster accepts deletions only. It returns the error of etcd, like the
// following methods.
func (m *Member) RaiseNoSpace() error { return m.alarm("ACTIVATE", "NOSPACE") }

// ClearNoSpace clears the alarm of RaiseNoSpace.
func (m *Member) ClearNoSpace() error { return m.alarm("DEACTIVATE", "NOSPACE") }

// RaiseCorrupt raises etcd's CORRUPT alarm, as for a member with inconsistent data. Until
// ClearCorrupt, the cluster accepts no writes.
func (m *Member) RaiseCorrupt() error { return m.alarm("ACTIVATE", "CORRUPT") }

// ClearCorrupt clears the alarm of RaiseCorrupt.
func (m *Member) ClearCorrupt() error { return m.alarm("DEACTIVATE", "CORRUPT") }

func (m *Member) alarm(action, alarm string) error {
	id, err := strconv.ParseUint(m.id, 16, 64)
	if err != nil {
		return err
	}
	var response struct{ Message string }
	err = m.call("maintenance/alarm", fmt.Sprintf(`{"action":%q,"memberID":"%d","alarm":%q}`, action, id, alarm), &response)
	if err == nil && response.Message != "" {
		err = errors.New(response.Message)
	}
	if err != nil {
		return fmt.Errorf("%s the alarm %s of %s: %w", action, alarm, m.name, err)
	}
	return nil
}

// Defragment defragments the database of the member, which does not respond during that time. It
// returns the error of etcd.
func (m *Member) Defragment() error {
	var response struct{ Message string }
	if err := m.call("maintenance/defragment", "{}", &response); err != nil {
		return fmt.Errorf("defragment %s: %w", m.name, err)
	}
	if response.Message != "" {
		return fmt.Errorf("defragment %s: %s", m.name, response.Message)
	}
	return nil
}

// IsLeader reports whether the member is the leader. It returns false if the member is stopped or does not
// respond.
func (m *Member) IsLeader() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process == nil {
		return false
	}
	status, err := m.getStatus()
	return err == nil && status.Leader == status.Header.MemberID
}

// Stop closes the connections of clients and stops the member. It waits until the process has ended.
func (m *Member) Stop() {
	m.disconnect()
	m.clients.closeConnections()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process != nil {
		m.process.stop()
		m.process = nil
	}
}

// Restart starts a member after Stop and waits until it serves reads.
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

// Isolate separates the member from the other members. Clients can still connect to it.
func (m *Member) Isolate() { m.links.setPartitioned(m.id, true) }

// Rejoin ends Isolate.
func (m *Member) Rejoin() { m.links.setPartitioned(m.id, false) }

// Disconnect closes the connections of clients. Clients can connect again.
func (m *Member) Disconnect() { m.clients.closeConnections() }

// Freeze stops forwarding data on the connections of clients without closing them.
func (m *Member) Freeze() { m.clients.freeze(true) }

// Thaw ends Freeze.
func (m *Member) Thaw() { m.clients.freeze(false) }

func (m *Member) close() {
	m.clients.close()
	m.peers.close()
	m.Stop()
}

// TLSConfig returns a TLS configuration with the client certificate and the CA of the cluster.
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
