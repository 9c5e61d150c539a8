// Package apitest runs a Kubernetes API server in the process of a Go test:
//
//	func TestOperator(t *testing.T) {
//		server := apitest.Start(t)
//		server.Apply("config/crd")
//		client := kubernetes.NewForConfigOrDie(server.Config())
//		...
//	}
//
// The server has authentication, authorization, admission, watches and controllers. By default it stores
// objects in memory, listens on no port, and is ready within milliseconds. It stops at the end of the test.
// Each test can have its own server, and such tests can run in parallel.
//
// This package has a stable API.
package apitest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/internal/apitest/manifests"
	"mainstay.dev/mainstay/internal/apitest/throwaway"
	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/filters/faults"
	"mainstay.dev/mainstay/internal/host"
	"mainstay.dev/mainstay/internal/simulation"
)

// Options configures a server. The zero value is an in-memory server without a port.
type Options struct {
	// OnDisk stores objects and keys in a temporary directory of the test instead of in memory. Writes are
	// synced to disk, as in a real server.
	OnDisk bool
	// Snapshot is the path of a file that "mainstay snapshot save" has written. The server starts with the
	// objects of the snapshot. Snapshot cannot be combined with OnDisk.
	Snapshot string
	// Port makes the server listen on a free port of 127.0.0.1, so that other processes can connect to the
	// server (see Server.Kubeconfig).
	Port bool
	// Time is the initial time of the clock for objects. The clock then stands still until Server.Advance moves
	// it. The zero value uses the system clock.
	Time time.Time
	// Seed is the seed for UIDs and generated names. Tests that create the same objects in the same order
	// receive the same values. 0 means random values.
	Seed uint64
	// KubernetesVersion is the Kubernetes version that the server emulates, such as "1.33". It determines the
	// resources, fields, feature gates and default objects. "" means the newest version.
	KubernetesVersion string
	// FeatureGates enables or disables features by name.
	FeatureGates map[string]bool
	// RuntimeConfig enables or disables API versions and resources, with the keys and values of
	// kube-apiserver's --runtime-config, such as "api/beta": "true".
	RuntimeConfig map[string]string
	// Controllers selects the controllers that the server runs, in the syntax of --controllers. nil selects all
	// default controllers, and "-*" selects none.
	Controllers []string
	// EnableAdmissionPlugins lists plugins to enable in addition to the default plugins.
	// DisableAdmissionPlugins lists plugins to disable.
	EnableAdmissionPlugins, DisableAdmissionPlugins []string
	// AuthorizationModes lists the authorizers in order, such as "RBAC" or "AlwaysAllow". nil means Node and
	// RBAC.
	AuthorizationModes []string
	// Logger receives the server's log messages; nil discards them.
	Logger *slog.Logger
}

// Server is a running server. Its methods are safe for concurrent use, and fail the test on errors.
type Server struct {
	t testing.TB
	*shared
	tenant *tenant // nil for the API of Start
}

// shared is the running server and its settings, which all control planes of the server share.
type shared struct {
	dial       func(ctx context.Context, network, address string) (net.Conn, error) // nil for a server with a port
	server     *throwaway.Server
	faults     faults.Set
	simulation *simulation.Simulation
	planes     atomic.Int64 // number of created control planes
}

// Start starts a server with default options and blocks until the server is ready. The server stops after the
// test and its subtests have ended. If the server does not start, Start ends the test.
func Start(t testing.TB) *Server {
	t.Helper()
	return Options{}.Start(t)
}

// Start is like the function Start, but uses the options o. Invalid options end the test.
func (o Options) Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, shared: &shared{simulation: simulation.New(simulation.Config{Time: o.Time, Seed: o.Seed})}}
	config, err := o.config()
	if err != nil {
		t.Fatalf("start a server: %v", err)
	}
	if config.Storage.InMemory = !o.OnDisk; o.OnDisk {
		config.Storage.DataDir = filepath.Join(t.TempDir(), "data")
	}
	config.Storage.Embedded.Snapshot = o.Snapshot
	if o.Port {
		config.Listen.SecurePort = host.AnyPort
	} else {
		inside := newListener()
		config.Listen.Listener, s.dial = inside, inside.dial
	}
	config.Testing.Faults, config.Testing.Simulation = &s.faults, s.simulation
	if s.server, err = throwaway.Start(t.Context(), config); err != nil {
		t.Fatalf("start a server: %v", err)
	}
	t.Cleanup(s.stop)
	return s
}

// config returns the configuration of the server, except its storage, listener and clock.
func (o Options) config() (host.Config, error) {
	config := host.Config{Logger: o.Logger}
	api := &config.ControlPlane
	if o.KubernetesVersion != "" {
		minor, err := controlplane.ParseMinor(o.KubernetesVersion)
		if err != nil {
			return config, fmt.Errorf("apitest.Options.KubernetesVersion: %w", err)
		}
		api.Features.Emulation.Minor = minor
	}
	api.Features.RuntimeConfig = o.RuntimeConfig
	for name, enabled := range o.FeatureGates {
		if api.Features.Gates == nil {
			api.Features.Gates = feature.Set{}
		}
		api.Features.Gates[feature.Gate(name)] = enabled
	}
	api.Controllers.Names = o.Controllers
	api.Authorization.Modes = o.AuthorizationModes
	api.Admission.EnablePlugins, api.Admission.DisablePlugins = o.EnableAdmissionPlugins, o.DisableAdmissionPlugins
	return config, nil
}

func (s *Server) stop() {
	s.faults.Clear()
	if err := s.server.Stop(); err != nil {
		s.t.Errorf("the server ended with: %v", err)
	}
}

// URL returns the URL of the server. Without Options.Port, only clients that use a configuration of Config or
// As can connect to the URL.
func (s *Server) URL() string {
	if s.tenant != nil {
		return s.tenant.url
	}
	return s.server.URL
}

// Config returns a client configuration for an administrator with all permissions. The client has no rate
// limit. The caller owns the result.
func (s *Server) Config() *rest.Config {
	s.t.Helper()
	return s.as(host.Administrator())
}

// As returns a client configuration for the given user and groups, without a rate limit. Roles and bindings
// determine the user's permissions; members of system:masters have all permissions. The caller owns the result.
func (s *Server) As(user string, groups ...string) *rest.Config {
	s.t.Helper()
	return s.as(host.User{Name: user, Groups: groups})
}

func (s *Server) as(user host.User) *rest.Config {
	s.t.Helper()
	config := &rest.Config{
		Host: s.URL(), QPS: -1, Dial: s.dial,
		// client-go does not cache the transport of a configuration with a Proxy function.
		Proxy:           func(*http.Request) (*url.URL, error) { return nil, nil },
		TLSClientConfig: rest.TLSClientConfig{CAData: s.server.Host.ServingCA()},
	}
	if s.tenant != nil {
		return s.tenant.as(user, config)
	}
	var err error
	if config.CertData, config.KeyData, err = s.server.Host.ClientCertificate(user); err != nil {
		s.t.Fatalf("create the certificate of %s: %v", user.Name, err)
	}
	return config
}

// Kubeconfig writes an administrator's kubeconfig for other processes to a temporary file of the test, and
// returns the path of the file. It ends the test if the server has no port.
func (s *Server) Kubeconfig() string {
	s.t.Helper()
	if s.dial != nil {
		s.t.Fatal("a kubeconfig needs a server with a port: apitest.Options{Port: true}.Start(t)")
	}
	data, err := s.kubeconfig()
	if err != nil {
		s.t.Fatalf("create the kubeconfig: %v", err)
	}
	file := filepath.Join(s.t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		s.t.Fatalf("write the kubeconfig: %v", err)
	}
	return file
}

func (s *Server) kubeconfig() ([]byte, error) {
	if s.tenant != nil {
		return s.tenant.kubeconfig, nil
	}
	return s.server.Host.Kubeconfig()
}

// Apply applies the objects of manifests as an administrator. A path names a file, or a directory with YAML and
// JSON files. CustomResourceDefinitions are applied first, and their resources are served when Apply returns.
// An error ends the test.
func (s *Server) Apply(paths ...string) {
	s.t.Helper()
	objects, err := manifests.Read(paths...)
	s.apply(objects, err)
}

// ApplyCRDs is like Apply, but applies only CustomResourceDefinitions and ignores other objects. A path without
// a definition ends the test.
func (s *Server) ApplyCRDs(paths ...string) {
	s.t.Helper()
	definitions, err := manifests.ReadDefinitions(paths...)
	s.apply(definitions, err)
}

func (s *Server) apply(objects []manifests.Object, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(s.Config())
	if err != nil {
		s.t.Fatalf("create a client: %v", err)
	}
	defer client.CloseIdleConnections()
	applier := &manifests.Client{HTTP: client, URL: s.URL()}
	if err := applier.Apply(s.t.Context(), objects); err != nil {
		s.t.Fatal(err)
	}
}
