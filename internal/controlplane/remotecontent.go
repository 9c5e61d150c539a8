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

	"mainstay.dev/mainstay/internal/controllers/namespace"
	"mainstay.dev/mainstay/internal/request"
)

const (
	// remoteTimeout bounds a request of the namespace controller to an aggregated server;
	// maxRemoteBody bounds the response, in bytes.
	remoteTimeout = 30 * time.Second
	maxRemoteBody = 4 << 20
)

// deleteRemote deletes the objects of aggregated servers in a namespace, as a user.
func (i *instance) deleteRemote(ctx context.Context, user *request.User, ns string) namespace.Remote {
	result := namespace.Remote{Remaining: map[string]int{}}
	remotes := i.aggregated.Remotes()
	var stale []string
	for _, gv := range slices.SortedFunc(maps.Keys(remotes), func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) }) {
		discovered := remotes[gv]
		if discovered == nil || discovered.Freshness == apidiscovery.DiscoveryFreshnessStale {
			stale = append(stale, fmt.Sprintf("%s: stale GroupVersion discovery: %s", gv, gv))
			continue
		}
		for k := range discovered.Resources {
			if r := &discovered.Resources[k]; r.Scope == apidiscovery.ScopeNamespace && slices.Contains(r.Verbs, "deletecollection") && slices.Contains(r.Verbs, "list") {
				call := remoteCall{handler: i.aggregated.Handler(gv), user: user, gvr: gv.WithResource(r.Resource), namespace: ns}
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
	if len(stale) > 0 { // in the words of kube-controller-manager, which has them from client-go
		result.Discovery = fmt.Errorf("Discovery failed for some groups, %d failing: unable to retrieve the complete list of server APIs: %s", len(stale), strings.Join(stale, ", "))
	}
	return result
}

// remoteCall is requests to an aggregated server about a resource in a namespace.
type remoteCall struct {
	handler   http.Handler
	user      *request.User
	gvr       schema.GroupVersionResource
	namespace string
}

// deleteAll deletes all objects, and returns how many remain.
func (c *remoteCall) deleteAll(ctx context.Context) (remaining int, err error) {
	if c.handler == nil {
		return 0, nil // it was unregistered just now
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

// do sends a request through the proxy, with the user's identity.
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
	answer := &remoteAnswer{header: http.Header{}}
	c.handler.ServeHTTP(answer, r)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s %s: %w", verb, c.gvr.GroupResource(), ctx.Err())
	case answer.code >= 300 && answer.code != http.StatusNotFound:
		return nil, fmt.Errorf("%s %s: %d %s", verb, c.gvr.GroupResource(), answer.code, bytes.TrimSpace(answer.body[:min(len(answer.body), 200)]))
	case answer.code == http.StatusNotFound:
		return []byte("{}"), nil
	}
	return answer.body, nil
}

// remoteAnswer collects an answer, up to its limit.
type remoteAnswer struct {
	header http.Header
	code   int
	body   []byte
}

// Header implements http.ResponseWriter.
func (a *remoteAnswer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *remoteAnswer) WriteHeader(code int) {
	if a.code == 0 {
		a.code = code
	}
}

// Write implements http.ResponseWriter.
func (a *remoteAnswer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if len(a.body)+len(b) > maxRemoteBody {
		return 0, http.ErrContentLength
	}
	a.body = append(a.body, b...)
	return len(b), nil
}
