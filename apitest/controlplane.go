package apitest

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/internal/host"
)

// tenant is the part of a Server that differs for ControlPlane.
type tenant struct {
	url, token string
	kubeconfig []byte
}

// ControlPlane returns an isolated API in the same server, with its own objects, definitions, users and
// permissions, which is deleted at the end of the test. It takes less time and memory than a server. Its
// clock and its faults are those of the server. If the API cannot be created, it ends the test.
func (s *Server) ControlPlane(t testing.TB) *Server {
	t.Helper()
	name := fmt.Sprint("test-", s.planes.Add(1))
	credentials, err := s.server.Host.CreateControlPlane(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.server.Host.DeleteControlPlane(context.WithoutCancel(t.Context()), name); err != nil {
			t.Errorf("delete the control plane: %v", err)
		}
	})
	return &Server{
		t: t, shared: s.shared,
		tenant: &tenant{url: credentials.URL, token: credentials.Token, kubeconfig: credentials.Kubeconfig},
	}
}

// as returns a client configuration for a user of the control plane. The administrator's token
// impersonates other users.
func (c *tenant) as(user host.User, config *rest.Config) *rest.Config {
	config.BearerToken = c.token
	if user.Name != host.Administrator().Name {
		config.Impersonate = rest.ImpersonationConfig{UserName: user.Name, Groups: user.Groups}
	}
	return config
}
