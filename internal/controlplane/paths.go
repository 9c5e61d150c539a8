package controlplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"mainstay.dev/mainstay/internal/telemetry"
)

// paths are the handlers of non-resource paths. They are set before the first
// request and do not change afterwards.
type paths struct {
	exact    map[string]http.Handler
	prefixes []prefix
}

type prefix struct {
	path    string
	handler http.Handler
}

func newPaths() *paths { return &paths{exact: make(map[string]http.Handler)} }

// handle registers a handler for a path, and for all paths below one that ends in a
// slash.
func (p *paths) handle(path string, handler http.Handler) {
	if strings.HasSuffix(path, "/") && path != "/" {
		p.prefixes = append(p.prefixes, prefix{path, handler})
		return
	}
	p.exact[path] = handler
}

func (p *paths) has(path string) bool { return p.exact[path] != nil }

func (p *paths) find(path string) http.Handler {
	if handler := p.exact[path]; handler != nil {
		return handler
	}
	var longest prefix
	for _, prefix := range p.prefixes {
		if strings.HasPrefix(path, prefix.path) && len(prefix.path) > len(longest.path) {
			longest = prefix
		}
	}
	return longest.handler
}

// indexPaths returns the paths of the index at /, including those of the host.
func indexPaths(host map[string]http.Handler) []string {
	list := []string{"/", openIDConfigurationPath, openIDKeysPath, "/healthz", "/livez", "/readyz", "/version"}
	for path := range host {
		if !strings.HasSuffix(path, "/") {
			list = append(list, path)
		}
	}
	slices.Sort(list)
	return list
}

func (i *instance) installPaths() error {
	versionJSON, err := json.MarshalIndent(versionInfo(Build(i.env.Version)), "", "  ")
	if err != nil {
		return fmt.Errorf("encode the version: %w", err)
	}
	version := i.readOnly(static("application/json", versionJSON))
	i.paths.handle("/version", version)
	i.paths.exact["/version/"] = version

	i.paths.handle(AdmissionPath, http.HandlerFunc(i.serveAdmission))
	i.paths.handle("/", http.HandlerFunc(i.serveIndex))
	i.installOpenID()
	for path, handler := range i.env.Paths {
		i.paths.handle(path, handler)
	}
	for path, checks := range i.checks() {
		for _, check := range checks {
			i.checkPaths = append(i.checkPaths, path+"/"+check.Name)
		}
		health := telemetry.NewHealth(path, i.env.Logger, i.env.Health, checks...)
		i.paths.handle(path, health)
		i.paths.handle(path+"/", health)
	}
	return nil
}

// serveIndex lists all paths that are handled now.
func (i *instance) serveIndex(w http.ResponseWriter, _ *http.Request) {
	list := slices.Concat(indexPaths(i.env.Paths), i.checkPaths, documentPaths(i.catalog))
	slices.Sort(list)
	body, err := json.MarshalIndent(map[string][]string{"paths": list}, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // the client has disconnected
}

// readOnly returns a handler that rejects all methods except GET and HEAD.
func (i *instance) readOnly(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { i.api.ReadOnly(handler).ServeHTTP(w, r) })
}

func static(contentType string, body []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(body) // the client has disconnected
	})
}
