package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/aggregated"
	"mainstay.dev/mainstay/internal/controllers"
	"mainstay.dev/mainstay/internal/request"
)

const (
	// remoteTimeout is the timeout for a request to an aggregated server. maxRemoteBody is the maximum size of
	// a response, in bytes.
	remoteTimeout = 30 * time.Second
	maxRemoteBody = 4 << 20
)

// deleteRemote deletes, as the given user, the objects that aggregated servers store in a namespace.
func deleteRemote(ctx context.Context, registrations *aggregated.Source, user *request.User, ns string) controllers.RemoteContent {
	result := controllers.RemoteContent{Remaining: map[string]int{}}
	remotes := registrations.Remotes()
	var stale []string
	for _, gv := range slices.SortedFunc(maps.Keys(remotes), func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) }) {
		discovered := remotes[gv]
		if discovered == nil || discovered.Freshness == apidiscovery.DiscoveryFreshnessStale {
			stale = append(stale, fmt.Sprintf("%s: stale GroupVersion discovery: %s", gv, gv))
			continue
		}
		for k := range discovered.Resources {
			if r := &discovered.Resources[k]; r.Scope == apidiscovery.ScopeNamespace && slices.Contains(r.Verbs, "deletecollection") && slices.Contains(r.Verbs, "list") {
				call := remoteCall{handler: registrations.Handler(gv), user: user, gvr: gv.WithResource(r.Resource), namespace: ns}
				remaining, err := call.deleteAll(ctx)
				if err != nil {
					result.Contents = append(result.Contents, err)
				}
				if remaining > 0 {
					result.Remaining[r.Resource+"."+gv.Group] += remaining
				}
			}
		}
	}
	if len(stale) > 0 { // the message of client-go, which kube-controller-manager reports
		result.Discovery = fmt.Errorf("Discovery failed for some groups, %d failing: unable to retrieve the complete list of server APIs: %s", len(stale), strings.Join(stale, ", "))
	}
	return result
}

// remoteCall sends requests for one resource in one namespace to an aggregated server.
type remoteCall struct {
	handler   http.Handler
	user      *request.User
	gvr       schema.GroupVersionResource
	namespace string
}

// deleteAll deletes all objects and returns the number of remaining objects.
func (c *remoteCall) deleteAll(ctx context.Context) (remaining int, err error) {
	if c.handler == nil {
		return 0, nil // the APIService was deleted in the meantime
	}
	if _, err := c.do(ctx, http.MethodDelete, "deletecollection", `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`); err != nil {
		return 0, err
	}
	body, err := c.do(ctx, http.MethodGet, "list", "")
	if err != nil {
		return 0, err
	}
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(body, &list); err != nil {
		return 0, fmt.Errorf("read the list of %s: %w", c.gvr.GroupResource(), err)
	}
	return len(list.Items), nil
}

// do sends a request to the aggregated server as the user, and returns the body of the response. For a 404
// response, it returns an empty JSON object.
func (c *remoteCall) do(ctx context.Context, method, verb, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	info := &request.Info{
		IsResource: true, Verb: verb, Group: c.gvr.Group, Version: c.gvr.Version, Resource: c.gvr.Resource, Namespace: c.namespace,
		Path: "/apis/" + c.gvr.GroupVersion().String() + "/namespaces/" + c.namespace + "/" + c.gvr.Resource,
	}
	ctx = request.NewContext(ctx, info, time.Now())
	request.SetUser(ctx, c.user)
	r, err := http.NewRequestWithContext(ctx, method, info.Path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	response := &remoteResponse{header: http.Header{}}
	c.handler.ServeHTTP(response, r)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s %s: %w", verb, c.gvr.GroupResource(), ctx.Err())
	case response.code >= 300 && response.code != http.StatusNotFound:
		return nil, fmt.Errorf("%s %s: %d %s", verb, c.gvr.GroupResource(), response.code, bytes.TrimSpace(response.body[:min(len(response.body), 200)]))
	case response.code == http.StatusNotFound:
		return []byte("{}"), nil
	}
	return response.body, nil
}

// remoteResponse collects a response of up to maxRemoteBody bytes.
type remoteResponse struct {
	header http.Header
	code   int
	body   []byte
}

// Header implements http.ResponseWriter.
func (r *remoteResponse) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *remoteResponse) WriteHeader(code int) {
	if r.code == 0 {
		r.code = code
	}
}

// Write implements http.ResponseWriter.
func (r *remoteResponse) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if len(r.body)+len(b) > maxRemoteBody {
		return 0, http.ErrContentLength
	}
	r.body = append(r.body, b...)
	return len(b), nil
}
