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

// fieldManager owns the fields that are applied.
const fieldManager = "mainstay"

// establishTimeout bounds the wait for a definition, establishPoll is how often it is
// looked at.
const (
	establishTimeout = 30 * time.Second
	establishPoll    = 2 * time.Millisecond
)

// Client applies objects to one server. It is not for concurrent use.
type Client struct {
	// HTTP sends requests with somebody's credentials, URL is the server's.
	HTTP *http.Client
	URL  string

	versions map[schema.GroupVersion][]metav1.APIResource
}

// Apply applies the objects: first definitions, then namespaces, then all others in their order. It
// returns the first error.
func (c *Client) Apply(ctx context.Context, objects []Object) error {
	ordered := slices.Clone(objects)
	slices.SortStableFunc(ordered, func(a, b Object) int { return cmp.Compare(a.rank(), b.rank()) })
	definitions, _ := slices.BinarySearchFunc(ordered, 1, func(o Object, rank int) int { return cmp.Compare(o.rank(), rank) })
	for i, o := range ordered {
		if i == definitions {
			if err := c.awaitAll(ctx, ordered[:definitions]); err != nil {
				return err
			}
		}
		if err := c.apply(ctx, o); err != nil {
			return o.wrap("apply", err)
		}
	}
	if definitions == len(ordered) {
		return c.awaitAll(ctx, ordered)
	}
	return nil
}

// rank is the place of an object in the order in which objects need each other.
func (o Object) rank() int {
	switch {
	case o.isDefinition():
		return 0
	case o.GetKind() == "Namespace" && o.GetAPIVersion() == "v1":
		return 1
	}
	return 2
}

func (o Object) wrap(doing string, err error) error {
	name := cmp.Or(o.GetName(), o.GetGenerateName())
	if ns := o.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return fmt.Errorf("%s %s %s of %s: %w", doing, o.GetKind(), name, o.Source, err)
}

func (c *Client) apply(ctx context.Context, o Object) error {
	body, err := json.Marshal(o.Object)
	if err != nil {
		return err
	}
	path, err := c.collection(ctx, o)
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

// collection returns the path of the collection of o.
func (c *Client) collection(ctx context.Context, o Object) (string, error) {
	gvk := o.GroupVersionKind()
	root := "/apis/" + gvk.GroupVersion().String()
	if gvk.Group == "" {
		root = "/api/" + gvk.Version
	}
	resource, err := c.resource(ctx, root, gvk)
	if err != nil {
		return "", err
	}
	if !resource.Namespaced {
		return root + "/" + resource.Name, nil
	}
	return root + "/namespaces/" + url.PathEscape(cmp.Or(o.GetNamespace(), metav1.NamespaceDefault)) + "/" + resource.Name, nil
}

// resource finds the resource of a kind with discovery. Each version is discovered once.
func (c *Client) resource(ctx context.Context, root string, gvk schema.GroupVersionKind) (*metav1.APIResource, error) {
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
	answer, err := c.do(ctx, http.MethodGet, root, "", nil)
	if err != nil {
		return nil, fmt.Errorf("find the resource of %s: %w", gvk, err)
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(answer, &list); err != nil {
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

// awaitAll waits until the definitions are served.
func (c *Client) awaitAll(ctx context.Context, definitions []Object) error {
	ctx, cancel := context.WithTimeout(ctx, establishTimeout)
	defer cancel()
	for _, o := range definitions {
		if err := c.await(ctx, o); err != nil {
			return o.wrap("wait for", err)
		}
	}
	return nil
}

// await waits until a definition is established. It fails at once where the names
// belong to another one.
func (c *Client) await(ctx context.Context, o Object) error {
	path, err := c.collection(ctx, o)
	if err != nil {
		return err
	}
	poll := time.NewTicker(establishPoll)
	defer poll.Stop()
	for {
		answer, err := c.do(ctx, http.MethodGet, path+"/"+url.PathEscape(o.GetName()), "", nil)
		if err != nil {
			return err
		}
		if done, err := established(answer); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is not established: %w", ctx.Err())
		case <-poll.C:
		}
	}
}

func established(definition []byte) (bool, error) {
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

// do sends a request and returns the body of the answer, or the message of a Status.
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
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if resp.StatusCode/100 == 2 {
		return answer, nil
	}
	var status metav1.Status
	if json.Unmarshal(answer, &status) == nil && status.Message != "" {
		return nil, errors.New(status.Message)
	}
	return nil, fmt.Errorf("the server answers %s", resp.Status)
}
