package aggregated

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/openapi"
)

// index is what a server says of its OpenAPI v3 documents.
type index struct {
	etag string
	// hashes are those of documents by their paths, such as apis/example.com/v1;
	// empty where the server tells none.
	hashes map[string]string
}

// spec is the OpenAPI v2 document of a server. It is asked for once somebody
// needs it, and kept.
type spec struct {
	mu     sync.Mutex
	wanted bool
	body   []byte
	etag   string
}

// describe tells the documents of this server of what another one says of a
// group version. A server that says nothing is left out.
func (s *server) describe(ctx context.Context, r *registration, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fresh || s.said.index.hashes == nil {
		if err := s.readIndexLocked(ctx); err != nil {
			s.source.logger.Debug("an aggregated server does not describe itself", "service", s.address.service.String(), "err", err)
		}
	}
	remote := openapi.Remote{GroupVersion: r.gv, V2: s.spec.get(s), Server: s}
	if hash, found := s.said.index.hashes[strings.TrimPrefix(path(r.gv), "/")]; found {
		remote.ETag, remote.Handler = hash, s.source.documentHandler(r.gv)
	}
	remote.Stamp = s.spec.refresh(ctx, s, fresh)
	s.source.config.Documents.SetRemote(remote)
	if s.source.current.Load().remotes[r.gv] == nil { // it went meanwhile
		s.source.config.Documents.RemoveRemote(r.gv)
	}
}

// documentHandler sends requests for the documents of a group version on to who
// answers for it by then.
func (s *Source) documentHandler(gv schema.GroupVersion) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if handler := s.Handler(gv); handler != nil {
			handler.ServeHTTP(w, r)
			return
		}
		http.NotFound(w, r)
	})
}

// readIndexLocked asks for the index of v3 documents. That there is none is no
// error.
func (s *server) readIndexLocked(ctx context.Context) error {
	answer, err := s.ask(ctx, "/openapi/v3", "application/json", s.said.index.etag)
	switch {
	case refuses(err):
		s.said.index = index{hashes: map[string]string{}}
		return nil
	case err != nil:
		return fmt.Errorf("ask for the OpenAPI index: %w", err)
	case answer.same:
		return nil
	}
	var list struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(answer.body, &list); err != nil {
		return fmt.Errorf("read the OpenAPI index: %w", err)
	}
	read := index{etag: answer.etag, hashes: map[string]string{}}
	for path, entry := range list.Paths {
		read.hashes[path] = ""
		if at, err := url.Parse(entry.URL); err == nil {
			read.hashes[path] = at.Query().Get("hash")
		}
	}
	s.said.index = read
	return nil
}

// errNoSpec is returned for servers without a v2 document.
var errNoSpec = errors.New("the server has no OpenAPI v2 document")

// get returns the function that openapi asks for a server's v2 document by.
func (d *spec) get(s *server) func() ([]byte, error) {
	return func() ([]byte, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.wanted = true
		if d.body == nil {
			if err := d.readLocked(context.Background(), s); err != nil {
				return nil, err
			}
		}
		return d.body, nil
	}
}

// refresh looks whether a document that is in use is still as it was, and
// returns what tells its states apart.
func (d *spec) refresh(ctx context.Context, s *server, fresh bool) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wanted && (fresh || d.body == nil) {
		if err := d.readLocked(ctx, s); err != nil {
			s.source.logger.Debug("an aggregated server does not describe itself", "service", s.address.service.String(), "err", err)
		}
	}
	return fmt.Sprintf("%s %d", d.etag, len(d.body))
}

func (d *spec) readLocked(ctx context.Context, s *server) error {
	answer, err := s.ask(ctx, "/openapi/v2", "application/json", d.etag)
	switch {
	case refuses(err):
		d.body, d.etag = nil, ""
		return errNoSpec
	case err != nil:
		return fmt.Errorf("ask for the OpenAPI document: %w", err)
	case !answer.same:
		d.body, d.etag = answer.body, answer.etag
	}
	return nil
}
