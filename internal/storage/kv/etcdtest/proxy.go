package etcdtest

import (
	"bytes"
	"io"
	"net"
	"regexp"
	"sync"
	"testing"
	"time"
)

// proxy forwards connections to a member.
type proxy struct {
	listener net.Listener
	links    *links // nil for clients, which are never partitioned
	owner    string // ID of the target member; guarded by links.mu

	mu     sync.Mutex
	target string
	open   map[net.Conn]string // connections and the IDs of the connecting members
	frozen chan struct{}       // closed when the freeze ends; nil if the proxy is not frozen
	tasks  sync.WaitGroup
}

// links records the partitioned members by ID. The proxies of a cluster share it.
type links struct {
	mu      sync.Mutex
	cut     map[string]bool
	proxies []*proxy
}

// setPartitioned separates a member from the other members and closes its connections to them if cut is set.
// Otherwise, it allows connections again.
func (l *links) setPartitioned(id string, cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut[id] = cut
	for _, p := range l.proxies {
		p.closeMatching(func(from string) bool { return cut && (from == id || p.owner == id) })
	}
}

// setOwner sets the member behind a proxy.
func (l *links) setOwner(p *proxy, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.owner = id
}

func (l *links) allowed(from string, p *proxy) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.cut[from] && !l.cut[p.owner]
}

func newProxy(t testing.TB, links *links) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, links: links, open: make(map[net.Conn]string)}
	if links != nil {
		links.proxies = append(links.proxies, p)
	}
	p.tasks.Go(p.accept)
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// currentTarget returns the address to which new connections are forwarded.
func (p *proxy) currentTarget() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// setTarget sets the address to which new connections are forwarded. An empty address rejects them.
func (p *proxy) setTarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

func (p *proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.tasks.Go(func() { p.serve(conn) })
	}
}

// senderHeader matches the header with the ID of the connecting etcd member.
var senderHeader = regexp.MustCompile(`(?i)\r\nX-Server-From: ([0-9a-f]+)\r\n`)

// readSender reads the head of the first request. It returns the ID of the sending member and the head.
func readSender(conn net.Conn) (from string, head []byte, err error) {
	buf := make([]byte, 4096)
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	for !bytes.Contains(head, []byte("\r\n\r\n")) {
		n, err := conn.Read(buf)
		if err != nil {
			return "", nil, err
		}
		head = append(head, buf[:n]...)
	}
	_ = conn.SetReadDeadline(time.Time{})
	if found := senderHeader.FindSubmatch(head); found != nil {
		from = string(found[1])
	}
	return from, head, nil
}

func (p *proxy) serve(conn net.Conn) {
	defer conn.Close()
	var from string
	var head []byte
	if p.links != nil {
		var err error
		if from, head, err = readSender(conn); err != nil || !p.links.allowed(from, p) {
			return
		}
	}
	target := p.currentTarget()
	if target == "" {
		return
	}
	to, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer to.Close()
	if _, err := to.Write(head); err != nil {
		return
	}
	p.mu.Lock()
	p.open[conn] = from
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, conn)
	}()
	if p.links != nil && !p.links.allowed(from, p) {
		return // the member was partitioned before the connection was in p.open
	}
	var copying sync.WaitGroup
	copying.Go(func() { p.copy(to, conn); to.Close(); conn.Close() })
	copying.Go(func() { p.copy(conn, to); to.Close(); conn.Close() })
	copying.Wait()
}

func (p *proxy) copy(to io.Writer, from io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		frozen := p.frozen
		p.mu.Unlock()
		if frozen != nil {
			<-frozen
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) freeze(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case on && p.frozen == nil:
		p.frozen = make(chan struct{})
	case !on && p.frozen != nil:
		close(p.frozen)
		p.frozen = nil
	}
}

func (p *proxy) closeConnections() { p.closeMatching(func(string) bool { return true }) }

func (p *proxy) closeMatching(chosen func(from string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn, from := range p.open {
		if chosen(from) {
			_ = conn.Close()
		}
	}
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.freeze(false)
	p.closeConnections()
}
