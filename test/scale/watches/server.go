package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// server is the one that is measured.
type server struct {
	config *rest.Config
	client *http.Client
}

func connect(kubeconfig string) (*server, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kubeconfig, err)
	}
	s := &server{config: config}
	s.client, err = s.newClient()
	return s, err
}

// newClient returns a client with a connection of its own.
func (s *server) newClient() (*http.Client, error) {
	tls, err := rest.TLSConfigFor(s.config)
	if err != nil {
		return nil, fmt.Errorf("read the credentials: %w", err)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true, DisableCompression: true}}, nil
}

// do sends a request, whose answer is to be a success. The caller closes its body.
func (s *server) do(ctx context.Context, client *http.Client, method, path, contentType string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.config.Host+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	r.Header.Set("Accept", "application/json")
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 300 {
		defer response.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // it only explains
		return nil, &refused{method + " " + path, response.StatusCode, string(text)}
	}
	return response, nil
}

// refused is an answer that is no success.
type refused struct {
	what   string
	status int
	text   string
}

func (e *refused) Error() string { return fmt.Sprintf("%s: %d %s", e.what, e.status, e.text) }

func exists(err error) bool {
	var answer *refused
	return errors.As(err, &answer) && answer.status == http.StatusConflict
}

// send is do for answers whose body does not matter.
func (s *server) send(ctx context.Context, client *http.Client, method, path, contentType string, body []byte) error {
	response, err := s.do(ctx, client, method, path, contentType, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// usage is what the server's process takes, in bytes and seconds.
type usage struct{ cpu, resident, heap, stacks, used, goroutines float64 }

// usage reads the server's metrics after a garbage collection.
func (s *server) usage(ctx context.Context) (u usage, err error) {
	for range 2 { // the second frees what the first has finalized
		if err := s.send(ctx, s.client, http.MethodGet, "/debug/pprof/heap?gc=1", "", nil); err != nil {
			return u, err
		}
	}
	response, err := s.do(ctx, s.client, http.MethodGet, "/metrics", "", nil)
	if err != nil {
		return u, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return u, fmt.Errorf("read the metrics: %w", err)
	}
	values := map[string]*float64{
		"process_cpu_seconds_total": &u.cpu, "process_resident_memory_bytes": &u.resident, "go_memstats_heap_alloc_bytes": &u.heap,
		"go_memstats_stack_inuse_bytes": &u.stacks, "go_goroutines": &u.goroutines,
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if to := values[name]; to != nil {
			if *to, err = strconv.ParseFloat(value, 64); err != nil {
				return u, fmt.Errorf("read the metric %s: %w", name, err)
			}
		}
	}
	u.used = u.heap + u.stacks
	return u, nil
}
