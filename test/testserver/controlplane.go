package testserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// controlPlaneEnv is an environment variable. If it is not empty, the tests run in a declared control plane. If
// it is "fork", they run in a fork of another declared control plane.
const controlPlaneEnv = "MAINSTAY_TEST_CONTROL_PLANE"

// tenantName is the name of the control plane in which the tests run.
const tenantName = "tenant"

// InControlPlane reports whether the tests run in a declared control plane instead of the root.
func InControlPlane() bool { return os.Getenv(controlPlaneEnv) != "" }

func (s *Server) tenantKubeconfig() string { return filepath.Join(s.dir, "tenant.kubeconfig") }

// enterControlPlane creates the control plane of the tests, unless it exists. From then on, RESTConfig and
// Kubeconfig return the credentials of its administrator.
func (s *Server) enterControlPlane(ctx context.Context) (err error) {
	if os.Getenv(controlPlaneEnv) == "fork" {
		const source = tenantName + "-source"
		if _, err := s.ControlPlane(ctx, source, filepath.Join(s.dir, "source.kubeconfig")); err != nil {
			return err
		}
		s.tenant, err = s.Fork(ctx, source, tenantName, s.tenantKubeconfig())
		return err
	}
	s.tenant, err = s.ControlPlane(ctx, tenantName, s.tenantKubeconfig())
	return err
}

// Fork is like ControlPlane, but creates a fork of the control plane source. The fork can call webhooks.
func (s *Server) Fork(ctx context.Context, source, name, kubeconfig string) (*rest.Config, error) {
	return s.controlPlane(ctx, name, fmt.Sprintf(`{"from":{"controlPlane":%q,"outgoingCalls":"Allow"}}`, source), kubeconfig)
}

// ControlPlane creates a control plane, unless it exists, and returns a client configuration for its
// administrator. It also writes this configuration to the file kubeconfig.
func (s *Server) ControlPlane(ctx context.Context, name, kubeconfig string) (*rest.Config, error) {
	return s.controlPlane(ctx, name, `{}`, kubeconfig)
}

// controlPlane is like ControlPlane, but creates the control plane with the given spec, in JSON.
func (s *Server) controlPlane(ctx context.Context, name, spec, kubeconfig string) (*rest.Config, error) {
	client, err := rest.HTTPClientFor(s.config)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, s.options.readyTimeout())
	defer cancel()
	body := fmt.Sprintf(`{"apiVersion":"mainstay.dev/v1","kind":"ControlPlane","metadata":{"name":%q},"spec":%s}`, name, spec)
	code, answer, err := exchange(ctx, client, http.MethodPost, s.rootURL()+"/apis/mainstay.dev/v1/controlplanes", body)
	if err != nil || code != http.StatusCreated && code != http.StatusConflict {
		return nil, fmt.Errorf("create a control plane: %d %s %w", code, answer, err)
	}
	var secret struct {
		Data struct {
			Kubeconfig []byte `json:"kubeconfig"`
		} `json:"data"`
	}
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for code = 0; code != http.StatusOK; {
		if code, answer, err = exchange(ctx, client, http.MethodGet, s.rootURL()+"/api/v1/namespaces/kube-system/secrets/"+name+"-kubeconfig", ""); err != nil {
			return nil, err
		}
		<-poll.C
	}
	if err := json.Unmarshal(answer, &secret); err != nil {
		return nil, fmt.Errorf("decode the kubeconfig of the control plane: %w", err)
	}
	if err := os.WriteFile(kubeconfig, secret.Data.Kubeconfig, 0o600); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

func exchange(ctx context.Context, client *http.Client, method, url, body string) (code int, answer []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// RootOnly skips a test that requires the root control plane if the tests run in another one.
func RootOnly(t testing.TB, reason string) {
	t.Helper()
	if InControlPlane() {
		t.Skip("only in the root control plane: " + reason)
	}
}
