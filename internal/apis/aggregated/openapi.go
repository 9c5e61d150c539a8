package aggregated

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/endpoints/openapi"
)

// v3Index is the index of the OpenAPI v3 documents of a server.
type v3Index struct {
	etag string
	// hashes contains the hash of each document, keyed by a path such as apis/example.com/v1. A hash is empty
	// if the server has not sent one. The map is nil before the first fetch.
	hashes map[string]string
}

// v2Document is the OpenAPI v2 document of an aggregated server. It is fetched when a client first requests the
// OpenAPI v2 document of this server, and refreshed by later checks.
type v2Document struct {
	mu        sync.Mutex
	requested bool
	body      []byte
	etag      string
	stamp     string // the result of refresh; changes with body
}

// updateOpenAPI sets the OpenAPI documents of a registration in Config.Documents. It omits
// documents that the server does not have.
func (s *server) updateOpenAPI(ctx context.Context, r *registration, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fresh || s.cache.openAPIV3.hashes == nil {
		if err := s.readIndexLocked(ctx); err != nil {
			s.source.logger.Debug("OpenAPI documents of an aggregated server are not available", "service", s.address.service.String(), "err", err)
		}
	}
	remote := openapi.Remote{GroupVersion: r.gv, V2: s.openAPIV2.fetcher(s), Server: s}
	if hash, found := s.cache.openAPIV3.hashes[strings.TrimPrefix(path(r.gv), "/")]; found {
		remote.ETag, remote.Handler = hash, s.source.documentHandler(r.gv)
	}
	remote.V2Stamp = s.openAPIV2.refresh(ctx, s, fresh)
	s.source.config.Documents.SetRemote(remote)
	if s.source.current.Load().remotes[r.gv] == nil { // removed concurrently
		s.source.config.Documents.RemoveRemote(r.gv)
	}
}

// documentHandler proxies requests for the OpenAPI v3 document of a group version
// to the server that is registered for it at the time of the request.
func (s *Source) documentHandler(gv schema.GroupVersion) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if handler := s.Handler(gv); handler != nil {
			handler.ServeHTTP(w, r)
			return
		}
		http.NotFound(w, r)
	})
}

// readIndexLocked fetches the index of v3 documents. If the server does not serve the index, the index is
// empty and the error is nil.
func (s *server) readIndexLocked(ctx context.Context) error {
	response, err := s.fetch(ctx, "/openapi/v3", "application/json", s.cache.openAPIV3.etag)
	switch {
	case isNotServed(err):
		s.cache.openAPIV3 = v3Index{hashes: map[string]string{}}
		return nil
	case err != nil:
		return fmt.Errorf("fetch the OpenAPI index: %w", err)
	case response.notModified:
		return nil
	}
	var list struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(response.body, &list); err != nil {
		return fmt.Errorf("decode the OpenAPI index: %w", err)
	}
	read := v3Index{etag: response.etag, hashes: map[string]string{}}
	for path, entry := range list.Paths {
		read.hashes[path] = ""
		if at, err := url.Parse(entry.URL); err == nil {
			read.hashes[path] = at.Query().Get("hash")
		}
	}
	s.cache.openAPIV3 = read
	return nil
}

// errNoV2Document is returned for servers without a v2 document.
var errNoV2Document = errors.New("the server has no OpenAPI v2 document")

// fetcher returns a function that returns the v2 document, and fetches it on first use. Because requests
// share the document, the fetch uses Config.Stopping instead of the context of a request.
func (d *v2Document) fetcher(s *server) func() ([]byte, error) {
	return func() ([]byte, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.requested = true
		if d.body == nil {
			if err := d.readLocked(s.source.config.Stopping, s); err != nil {
				return nil, err
			}
		}
		return d.body, nil
	}
}

// refresh fetches the document again if it was requested before. It returns a stamp that changes with the
// document.
func (d *v2Document) refresh(ctx context.Context, s *server, fresh bool) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.requested && (fresh || d.body == nil) {
		if err := d.readLocked(ctx, s); err != nil {
			s.source.logger.Debug("OpenAPI documents of an aggregated server are not available", "service", s.address.service.String(), "err", err)
		}
	}
	return d.stamp
}

func (d *v2Document) readLocked(ctx context.Context, s *server) error {
	response, err := s.fetch(ctx, "/openapi/v2", "application/json", d.etag)
	switch {
	case isNotServed(err):
		d.body, d.etag, d.stamp = nil, "", ""
		return errNoV2Document
	case err != nil:
		return fmt.Errorf("fetch the OpenAPI document: %w", err)
	case !response.notModified:
		d.body, d.etag = response.body, response.etag
		d.stamp = fmt.Sprintf("%x", sha256.Sum256(d.body)) // some servers send no ETag
	}
	return nil
}
