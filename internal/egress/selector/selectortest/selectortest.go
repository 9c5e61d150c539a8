// Package selectortest contains proxies for tests. One is an HTTP CONNECT proxy, and the other is a
// konnectivity server that connects to addresses itself instead of through agents.
package selectortest

import (
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	konnectivity "sigs.k8s.io/apiserver-network-proxy/konnectivity-client/proto/client"
)

// Proxy is a proxy that records requested addresses. It is safe for concurrent use.
type Proxy struct {
	// Redirect returns the address to connect to instead of the requested address; "" rejects the
	// request. It must be set before the first request, and may be nil.
	Redirect func(address string) string

	mu        sync.Mutex
	addresses []string
	streams   int // number of open konnectivity streams
}

// Addresses returns the requested addresses in order. The caller owns the slice.
func (p *Proxy) Addresses() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.addresses)
}

// Streams returns the number of open konnectivity streams.
func (p *Proxy) Streams() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.streams
}

func (p *Proxy) dial(address string) (net.Conn, error) {
	p.mu.Lock()
	p.addresses = append(p.addresses, address)
	p.mu.Unlock()
	if p.Redirect != nil {
		address = p.Redirect(address)
	}
	return net.Dial("tcp", address)
}

// ServeHTTP implements http.Handler. It supports only CONNECT requests.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "this is a proxy", http.StatusMethodNotAllowed)
		return
	}
	to, err := p.dial(r.RequestURI)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = to.Close() }()
	from, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = from.Close() }()
	if _, err := io.WriteString(from, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(to, from)
		if half, ok := to.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	}()
	_, _ = io.Copy(from, to)
}

// Konnectivity serves the konnectivity protocol on a listener until the test ends.
func (p *Proxy) Konnectivity(t testing.TB, listener net.Listener) *grpc.Server {
	server := grpc.NewServer()
	konnectivity.RegisterProxyServiceServer(server, &service{proxy: p})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return server
}

type service struct {
	konnectivity.UnimplementedProxyServiceServer
	proxy *Proxy
}

// connectID is the ID of the only connection of a stream.
const connectID = 7

// Proxy implements konnectivity.ProxyServiceServer.
func (s *service) Proxy(stream konnectivity.ProxyService_ProxyServer) error {
	s.proxy.count(1)
	defer s.proxy.count(-1)
	packet, err := stream.Recv()
	if err != nil {
		return err
	}
	request := packet.GetDialRequest()
	response := &konnectivity.DialResponse{Random: request.GetRandom(), ConnectID: connectID}
	to, err := s.proxy.dial(request.GetAddress())
	if err != nil {
		response.Error = err.Error()
	}
	send := func(kind konnectivity.PacketType, packet *konnectivity.Packet) error {
		packet.Type = kind
		return stream.Send(packet)
	}
	if failed := send(konnectivity.PacketType_DIAL_RSP, &konnectivity.Packet{Payload: &konnectivity.Packet_DialResponse{DialResponse: response}}); failed != nil || err != nil {
		return failed
	}
	go func() {
		receive(stream, to)
		_ = to.Close()
	}()
	buffer := make([]byte, 16<<10)
	for {
		n, err := to.Read(buffer)
		data := &konnectivity.Data{ConnectID: connectID, Data: buffer[:n]}
		if failed := send(konnectivity.PacketType_DATA, &konnectivity.Packet{Payload: &konnectivity.Packet_Data{Data: data}}); failed != nil {
			return failed
		}
		if err != nil {
			closed := &konnectivity.CloseResponse{ConnectID: connectID}
			return send(konnectivity.PacketType_CLOSE_RSP, &konnectivity.Packet{Payload: &konnectivity.Packet_CloseResponse{CloseResponse: closed}})
		}
	}
}

// receive forwards the data of the client until the client closes the connection.
func receive(stream konnectivity.ProxyService_ProxyServer, to io.Writer) {
	for {
		packet, err := stream.Recv()
		if err != nil || packet.GetCloseRequest() != nil {
			return
		}
		if _, err := to.Write(packet.GetData().GetData()); err != nil {
			return
		}
	}
}

func (p *Proxy) count(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams += n
}
