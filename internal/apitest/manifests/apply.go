package manifests

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fieldManager is the field manager of applied objects.
const fieldManager = "mainstay"

// establishTimeout is the maximum time to wait until all definitions are established. establishPoll is the
// polling interval.
const (
	establishTimeout = 30 * time.Second
	establishPoll    = 2 * time.Millisecond
)

// Client applies objects to one server. It is not safe for concurrent use.
type Client struct {
	// HTTP sends the requests and adds credentials. URL is the base URL of the server.
	HTTP *http.Client
	URL  string

	versions map[schema.GroupVersion][]metav1.APIResource
}

// Apply applies definitions first, then namespaces, and then all other objects in their original order. It
// blocks until the definitions are served, for at most 30 seconds. It stops at the first error and returns the
// error; objects that were applied before remain.
func (c *Client) Apply(ctx context.Context, objects []Object) error {
	ordered := slices.Clone(objects)
	slices.SortStableFunc(ordered, func(a, b Object) int { return cmp.Compare(a.rank(), b.rank()) })
	definitions, _ := slices.BinarySearchFunc(ordered, 1, func(o Object, rank int) int { return cmp.Compare(o.rank(), rank) })
	for i, o := range ordered {
		if i == definitions {
			if err := c.awaitDefinitions(ctx, ordered[:definitions]); err != nil {
				return err
			}
		}
		if err := c.applyObject(ctx, o); err != nil {
			return o.wrapError("apply", err)
		}
	}
	if definitions == len(ordered) {
		return c.awaitDefinitions(ctx, ordered)
	}
	return nil
}

// rank returns the position of an object's kind in the order in which Apply applies objects.
func (o Object) rank() int {
	switch {
	case o.isDefinition():
		return 0
	case o.GetKind() == "Namespace" && o.GetAPIVersion() == "v1":
		return 1
	}
	return 2
}

func (o Object) wrapError(doing string, err error) error {
	name := cmp.Or(o.GetName(), o.GetGenerateName())
	if ns := o.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return fmt.Errorf("%s %s %s of %s: %w", doing, o.GetKind(), name, o.Source, err)
}

func (c *Client) applyObject(ctx context.Context, o Object) error {
	body, err := json.Marshal(o.Object)
	if err != nil {
		return err
	}
	path, err := c.collectionPath(ctx, o)
	if err != nil {
		return err
	}
	query := "?fieldManager=" + fieldManager
	if o.GetName() == "" {
		_, err = c.do(ctx, http.MethodPost, path+query, "application/json", body)
		return err
	}
	_, err = c.do(ctx, http.MethodPatch, path+"/"+url.PathEscape(o.GetName())+query+"&force=true", "application/apply-patch+yaml", body)
	return err
}

func (c *Client) collectionPath(ctx context.Context, o Object) (string, error) {
	gvk := o.GroupVersionKind()
	root := "/apis/" + gvk.GroupVersion().String()
	if gvk.Group == "" {
		root = "/api/" + gvk.Version
	}
	resource, err := c.findResource(ctx, root, gvk)
	if err != nil {
		return "", err
	}
	if !resource.Namespaced {
		return root + "/" + resource.Name, nil
	}
	return root + "/namespaces/" + url.PathEscape(cmp.Or(o.GetNamespace(), metav1.NamespaceDefault)) + "/" + resource.Name, nil
}

// findResource finds the resource of a kind through discovery. The discovery document of a version is cached.
func (c *Client) findResource(ctx context.Context, root string, gvk schema.GroupVersionKind) (*metav1.APIResource, error) {
	find := func() *metav1.APIResource {
		all := c.versions[gvk.GroupVersion()]
		i := slices.IndexFunc(all, func(r metav1.APIResource) bool { return r.Kind == gvk.Kind && r.Group == "" && r.Version == "" })
		if i < 0 {
			return nil
		}
		return &all[i]
	}
	if known := find(); known != nil {
		return known, nil
	}
	response, err := c.do(ctx, http.MethodGet, root, "", nil)
	if errors.Is(err, errNotFound) {
		return nil, fmt.Errorf("the server has no API %s; apply its CustomResourceDefinition first", gvk.GroupVersion())
	}
	if err != nil {
		return nil, fmt.Errorf("find the resource of %s: %w", gvk, err)
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(response, &list); err != nil {
		return nil, fmt.Errorf("find the resource of %s: %w", gvk, err)
	}
	if c.versions == nil {
		c.versions = map[schema.GroupVersion][]metav1.APIResource{}
	}
	c.versions[gvk.GroupVersion()] = list.APIResources
	if known := find(); known != nil {
		return known, nil
	}
	return nil, fmt.Errorf("the server has no kind %s in %s", gvk.Kind, gvk.GroupVersion())
}

// awaitDefinitions waits until the definitions are served.
func (c *Client) awaitDefinitions(ctx context.Context, definitions []Object) error {
	ctx, cancel := context.WithTimeout(ctx, establishTimeout)
	defer cancel()
	for _, o := range definitions {
		if err := c.awaitDefinition(ctx, o); err != nil {
			return o.wrapError("wait for", err)
		}
	}
	return nil
}

// awaitDefinition waits until a definition is established. It returns an error immediately if the names in the
// definition conflict with another definition.
func (c *Client) awaitDefinition(ctx context.Context, o Object) error {
	path, err := c.collectionPath(ctx, o)
	if err != nil {
		return err
	}
	poll := time.NewTicker(establishPoll)
	defer poll.Stop()
	for {
		response, err := c.do(ctx, http.MethodGet, path+"/"+url.PathEscape(o.GetName()), "", nil)
		if err != nil {
			return err
		}
		if done, err := isEstablished(response); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not established: %w", ctx.Err())
		case <-poll.C:
		}
	}
}

func isEstablished(definition []byte) (bool, error) {
	var current struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(definition, &current); err != nil {
		return false, err
	}
	for _, condition := range current.Status.Conditions {
		switch {
		case condition.Type == "Established" && condition.Status == metav1.ConditionTrue:
			return true, nil
		case condition.Type == "NamesAccepted" && condition.Status == metav1.ConditionFalse:
			return false, fmt.Errorf("its names are not accepted: %s", condition.Message)
		}
	}
	return false, nil
}

// do sends a request and returns the body of the response. If the response is not successful, the error
// contains the message of the returned Status.
func (c *Client) do(ctx context.Context, method, path, contentType string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	response, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read the response body: %w", err)
	}
	if resp.StatusCode/100 == 2 {
		return response, nil
	}
	var status metav1.Status
	if json.Unmarshal(response, &status) == nil && status.Message != "" {
		return nil, errors.New(status.Message)
	}
	if resp.StatusCode == http.StatusNotFound {
		return nil, errNotFound
	}
	return nil, fmt.Errorf("unexpected status %s", resp.Status)
}

// errNotFound is the error for a path that the server does not have. For a missing object, the error of Client.do
// is the message of the server.
var errNotFound = errors.New("unexpected status 404 Not Found")
