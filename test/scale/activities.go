package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// activity is one kind of load in a soak.
type activity struct {
	name    string
	workers int
	every   time.Duration // average interval of a worker
	turn    func(context.Context, *worker) error
}

// activities returns the mixed load of a soak. Created objects are also deleted, so the number of objects
// becomes stable after a few minutes.
func activities() []activity {
	return []activity{
		{"objects", 8, 40 * time.Millisecond, changeObject},
		{"lists", 2, 200 * time.Millisecond, listObjects},
		{"watches", 40, time.Second, watchObjects},
		{"leases", 2, 40 * time.Millisecond, renewLease},
		{"events", 1, 50 * time.Millisecond, postEvent},
		{"definitions", 1, time.Second, useDefinition},
		{"namespaces", 2, time.Second, useNamespace},
		{"policies", 1, 2 * time.Second, usePolicy},
		{"owners", 1, time.Second, ownObjects},
		{"discovery", 1, 2 * time.Second, discover},
	}
}

// names is the maximum number of objects of each kind in each namespace.
const names = 200

// kind is a kind of object that a soak uses.
type kind struct {
	path   string // path of the collection in a namespace
	object func(name string, n int) fieldsOf
}

func kinds() []kind {
	return []kind{
		{"/api/v1/namespaces/%s/configmaps", configMapObject},
		{"/api/v1/namespaces/%s/pods", podObject},
		{"/apis/" + soakGroup + "/v1/namespaces/%s/widgets", func(name string, n int) fieldsOf { return widgetObject(kindOf("widgets"), name, n) }},
	}
}

// pick returns a random kind, and the path of its collection in a random namespace.
func (w *worker) pick() (kind, string) {
	all := kinds()
	k := all[w.rng.IntN(len(all))]
	return k, fmt.Sprintf(k.path, namespaceOf(w.rng.IntN(namespaces)))
}

// changeObject sends one request for an object that other workers might change at the same time.
func changeObject(ctx context.Context, w *worker) error {
	k, path := w.pick()
	name := fmt.Sprintf("o%d", w.rng.IntN(names))
	object := k.object(name, w.turns)
	change := fieldsOf{"metadata": fieldsOf{"annotations": fieldsOf{"turn": fmt.Sprint(w.turns)}}}
	one := path + "/" + name
	requests := []request{
		{method: http.MethodPost, path: path, body: object},
		{method: http.MethodPut, path: one, body: object},
		{method: http.MethodPatch, path: one, contentType: mergeType, body: change},
		{method: http.MethodPatch, path: one + "?fieldManager=soak", contentType: applyType, body: object},
		{method: http.MethodGet, path: one},
		{method: http.MethodDelete, path: one},
	}
	_, err := w.do(ctx, requests[w.rng.IntN(len(requests))])
	if isCode(err, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity) {
		return nil // the object exists, does not exist, or has another immutable field
	}
	return err
}

// listObjects lists a collection, either completely, with a selector, or in pages.
func listObjects(ctx context.Context, w *worker) error {
	_, path := w.pick()
	switch w.rng.IntN(4) {
	case 0:
		return w.listPages(ctx, path)
	case 1:
		_, err := w.get(ctx, fmt.Sprintf("%s?labelSelector=n%%3D%d", path, w.rng.IntN(10)))
		return err
	case 2:
		_, err := w.do(ctx, request{method: http.MethodGet, path: path, accept: "application/json;as=Table;v=v1;g=meta.k8s.io"})
		return err
	default:
		_, err := w.get(ctx, path+"?resourceVersion=0")
		return err
	}
}

func (w *worker) listPages(ctx context.Context, path string) error {
	for next := ""; ; {
		page, err := w.get(ctx, path+"?limit=20&continue="+url.QueryEscape(next))
		if isCode(err, http.StatusGone) {
			return nil // the server was restarted and no longer has the revision
		}
		if err != nil {
			return err
		}
		var list struct{ Metadata struct{ Continue string } }
		if err := json.Unmarshal(page, &list); err != nil {
			return err
		}
		if next = list.Metadata.Continue; next == "" {
			return nil
		}
	}
}

// watchObjects watches a collection for up to 30 seconds. Sometimes it uses its own connection, and sometimes
// it disconnects before the end.
func watchObjects(ctx context.Context, w *worker) error {
	_, path := w.pick()
	c := w.client
	if w.rng.IntN(5) == 0 {
		own, err := newClient(w.soak.server.kubeconfig())
		if err != nil {
			return err
		}
		defer own.close()
		c = own
	}
	query := []string{"&resourceVersion=0", "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "", "&labelSelector=n%3D3", "&fieldSelector=metadata.name%3Do7"}
	seconds := 1 + w.rng.IntN(30)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds+w.rng.IntN(10)-5)*time.Second)
	defer cancel()
	resp, err := c.send(ctx, request{method: http.MethodGet, path: fmt.Sprintf("%s?watch=true&allowWatchBookmarks=true&timeoutSeconds=%d%s", path, seconds, query[w.rng.IntN(len(query))])})
	if err != nil {
		return ignoreEnd(ctx, err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return ignoreEnd(ctx, err)
	}
	return nil
}

// renewLease renews one of 50 leases, or creates the lease if it does not exist.
func renewLease(ctx context.Context, w *worker) error {
	const leases = "/apis/coordination.k8s.io/v1/namespaces/soak-0/leases"
	name := fmt.Sprintf("node-%d-%d", w.id, w.rng.IntN(50))
	lease := leaseObject(name, time.Now())
	_, err := w.do(ctx, request{method: http.MethodPatch, path: leases + "/" + name, contentType: mergeType, body: lease})
	if isCode(err, http.StatusNotFound) {
		return w.create(ctx, leases, lease)
	}
	return err
}

func postEvent(ctx context.Context, w *worker) error {
	namespace := namespaceOf(w.turns)
	return w.create(ctx, "/api/v1/namespaces/"+namespace+"/events", eventObject(namespace, w.turns))
}

// useDefinition creates a definition with a new name, uses it, and deletes it.
func useDefinition(ctx context.Context, w *worker) error {
	plural := fmt.Sprintf("gadgets%d", time.Now().UnixNano())
	definition, all := definitionsPath+"/"+plural+"."+soakGroup, "/apis/"+soakGroup+"/v1/"+plural
	if err := w.create(ctx, definitionsPath, definitionObject(plural)); err != nil {
		return err
	}
	if err := w.await(ctx, all, true); err != nil {
		return err
	}
	for n := range 5 {
		path := "/apis/" + soakGroup + "/v1/namespaces/" + namespaceOf(n) + "/" + plural
		if err := w.create(ctx, path, widgetObject(kindOf(plural), "one", n)); err != nil {
			return err
		}
	}
	if _, err := w.get(ctx, all+"?watch=true&timeoutSeconds=1&resourceVersion=0"); err != nil {
		return err
	}
	if err := w.remove(ctx, definition); err != nil {
		return err
	}
	return w.await(ctx, definition, false)
}

// useNamespace creates a namespace with a new name, reads it with a token of its service account, and
// deletes it.
func useNamespace(ctx context.Context, w *worker) error {
	name := fmt.Sprintf("passing-%d-%d", w.id, time.Now().UnixNano())
	path := "/api/v1/namespaces/" + name
	if err := w.create(ctx, "/api/v1/namespaces", namespaceObject(name)); err != nil {
		return err
	}
	if err := w.await(ctx, path+"/serviceaccounts/default", true); err != nil {
		return err
	}
	if err := w.await(ctx, path+"/configmaps/kube-root-ca.crt", true); err != nil {
		return err
	}
	for n := range 5 {
		if err := w.create(ctx, path+"/configmaps", configMapObject(fmt.Sprint("c", n), n)); err != nil {
			return err
		}
	}
	if err := w.readAsItself(ctx, name); err != nil {
		return err
	}
	if err := w.remove(ctx, path); err != nil {
		return err
	}
	return w.await(ctx, path, false)
}

func (w *worker) readAsItself(ctx context.Context, namespace string) error {
	role, binding := rightsObjects()
	rights := "/apis/rbac.authorization.k8s.io/v1/namespaces/" + namespace
	if err := w.create(ctx, rights+"/roles", role); err != nil {
		return err
	}
	if err := w.create(ctx, rights+"/rolebindings", binding); err != nil {
		return err
	}
	path := "/api/v1/namespaces/" + namespace
	answer, err := w.do(ctx, request{method: http.MethodPost, path: path + "/serviceaccounts/default/token", body: fieldsOf{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": fieldsOf{},
	}})
	if err != nil {
		return err
	}
	var token struct{ Status struct{ Token string } }
	if err := json.Unmarshal(answer, &token); err != nil {
		return err
	}
	itself, err := w.as(token.Status.Token)
	if err != nil {
		return err
	}
	defer itself.close()
	_, err = itself.get(ctx, path+"/configmaps")
	return err
}

// usePolicy creates an admission policy and deletes it soon afterwards.
func usePolicy(ctx context.Context, w *worker) error {
	name := fmt.Sprintf("policy-%d", time.Now().UnixNano())
	policy, binding := policyObjects(name, namespaceOf(w.turns))
	policies, bindings := "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
	if err := w.create(ctx, policies, policy); err != nil {
		return err
	}
	if err := w.create(ctx, bindings, binding); err != nil {
		return err
	}
	pause(ctx, time.Second)
	if err := w.remove(ctx, bindings+"/"+name); err != nil {
		return err
	}
	return w.remove(ctx, policies+"/"+name)
}

// ownObjects creates an object that owns other objects, deletes it, and waits until the other objects are
// deleted.
func ownObjects(ctx context.Context, w *worker) error {
	path := "/api/v1/namespaces/" + namespaceOf(w.turns) + "/configmaps"
	name := fmt.Sprintf("owner-%d", time.Now().UnixNano())
	answer, err := w.do(ctx, request{method: http.MethodPost, path: path, body: configMapObject(name, 0)})
	if err != nil {
		return err
	}
	var owner struct{ Metadata struct{ UID string } }
	if err := json.Unmarshal(answer, &owner); err != nil {
		return err
	}
	for n := range 5 {
		owned := configMapObject(fmt.Sprintf("%s-%d", name, n), n)
		owned["metadata"].(fieldsOf)["ownerReferences"] = []any{fieldsOf{
			"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner.Metadata.UID, "blockOwnerDeletion": true,
		}}
		if err := w.create(ctx, path, owned); err != nil {
			return err
		}
	}
	policy := []string{"Background", "Foreground"}[w.turns%2]
	if err := w.remove(ctx, path+"/"+name+"?propagationPolicy="+policy); err != nil {
		return err
	}
	return w.await(ctx, path+"/"+name+"-4", false)
}

func discover(ctx context.Context, w *worker) error {
	paths := []string{"/apis", "/openapi/v3", "/openapi/v3/apis/" + soakGroup + "/v1", "/version", "/readyz?verbose"}
	_, err := w.get(ctx, paths[w.turns%len(paths)])
	return err
}
