package apitest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/host"
	"mainstay.dev/mainstay/internal/request"
)

// tenant contains the name, URL and credentials of a control plane that Server.ControlPlane or Server.Fork has
// created.
type tenant struct {
	name, url, token string
	kubeconfig       []byte
}

// ControlPlane returns an isolated API in the same server, with its own objects, definitions, users and
// permissions. The API is deleted at the end of the test. It needs less time and memory than a separate server,
// and shares the clock and the faults of the server. If the API cannot be created, ControlPlane ends the test.
func (s *Server) ControlPlane(t testing.TB) *Server {
	t.Helper()
	return s.newControlPlane(t, nil)
}

// Fork returns a copy of this API in the same server. The copy is deleted at the end of the test. Fork takes
// milliseconds for any number of objects, so that a suite can prepare one API with definitions and objects, and
// run each test in a fork. Objects keep their UIDs and resourceVersions. Users have the same names but other
// credentials. Events and leases are not copied. A fork can be forked again. The fork calls the webhooks that
// are configured in the copied API. If the fork cannot be created, Fork ends the test.
func (s *Server) Fork(t testing.TB) *Server {
	t.Helper()
	from := &controlplanes.Source{OutgoingCalls: controlplanes.AllowCalls}
	if s.tenant != nil {
		from.ControlPlane = s.tenant.name
	}
	return s.newControlPlane(t, from)
}

// newControlPlane creates a control plane for a test. If from is not nil, the control plane is a fork.
func (s *Server) newControlPlane(t testing.TB, from *controlplanes.Source) *Server {
	t.Helper()
	name := fmt.Sprint("test-", s.planes.Add(1))
	credentials, err := s.server.Host.CreateControlPlane(t.Context(), name, from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case <-s.server.Ended(): // the test of the server has ended first
			return
		default:
		}
		if err := s.server.Host.DeleteControlPlane(context.WithoutCancel(t.Context()), name); err != nil {
			t.Errorf("delete the control plane: %v", err)
		}
	})
	return &Server{
		t: t, shared: s.shared,
		tenant: &tenant{name: name, url: credentials.URL, token: credentials.Token, kubeconfig: credentials.Kubeconfig},
	}
}

// as returns a client configuration for a user of the control plane. The administrator's token
// impersonates other users.
func (c *tenant) as(user host.User, config *rest.Config) *rest.Config {
	config.BearerToken = c.token
	if admin := host.Administrator(); user.Name == admin.Name && slices.Equal(user.Groups, admin.Groups) {
		return config
	}
	// Without a user name, client-go would not impersonate anybody, and the administrator would send the requests.
	config.Impersonate = rest.ImpersonationConfig{UserName: cmp.Or(user.Name, request.Anonymous), Groups: user.Groups}
	return config
}
