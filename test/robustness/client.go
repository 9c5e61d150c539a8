package robustness

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
	"strconv"
	"time"

	"k8s.io/client-go/rest"
)

// collection contains the objects of the tests. They are pod templates, because no controller changes these,
// and because the response of their deletion contains the revision of the deletion.
const collection = "/api/v1/namespaces/default/podtemplates"

// requestTimeout is much longer than the duration of a request on a busy machine.
const requestTimeout = time.Minute

// object contains the fields of a pod template that the tests use.
type object struct {
	name  string
	value string // different for each write
	group string // a label, for selectors
	// revision is the resourceVersion.
	revision int64
}

// outcome is the result of a request.
type outcome int

const (
	done     outcome = iota // it succeeded
	missing                 // the object does not exist
	exists                  // the object exists already
	conflict                // the object is not at the required revision
	unknown                 // the connection failed: the request may have been executed
)

func (o outcome) String() string {
	return [...]string{"done", "missing", "exists", "conflict", "unknown"}[o]
}

// client is one user with its own connections.
type client struct {
	base string
	http *http.Client
	// padding is added to each written object.
	padding string
	// timeout is the timeout of a request; 0 selects requestTimeout.
	timeout time.Duration
}

func newClient(config *rest.Config) (*client, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the client's certificate: %w", err)
	}
	transport := &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true, DisableCompression: true}
	return &client{base: config.Host + collection, http: &http.Client{Transport: transport}}, nil
}

// reconnect closes the connections to a server that has been stopped.
func (c *client) reconnect() { c.http.CloseIdleConnections() }

// document is the JSON form of a pod template.
type document struct {
	APIVersion string    `json:"apiVersion,omitempty"`
	Kind       string    `json:"kind,omitempty"`
	Metadata   metadata  `json:"metadata"`
	Template   *template `json:"template,omitempty"`
}

type metadata struct {
	Name            string            `json:"name,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
}

type template struct {
	Spec struct {
		Containers []container `json:"containers"`
	} `json:"spec"`
}

type container struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

func (c *client) document(o object) document {
	doc := document{APIVersion: "v1", Kind: "PodTemplate", Template: &template{}}
	doc.Template.Spec.Containers = []container{{Name: "c", Image: "i"}}
	doc.Metadata.Name = o.name
	doc.Metadata.Labels = map[string]string{"group": o.group}
	doc.Metadata.Annotations = map[string]string{"value": o.value}
	if c.padding != "" {
		doc.Metadata.Annotations["padding"] = c.padding
	}
	if o.revision != 0 {
		doc.Metadata.ResourceVersion = strconv.FormatInt(o.revision, 10)
	}
	return doc
}

func (d *document) object() (object, error) {
	revision, err := strconv.ParseInt(d.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return object{}, fmt.Errorf("read the resourceVersion of %q: %w", d.Metadata.Name, err)
	}
	return object{
		name: d.Metadata.Name, value: d.Metadata.Annotations["value"],
		group: d.Metadata.Labels["group"], revision: revision,
	}, nil
}

// errUnavailable is returned if the outcome of a request is unknown because of the server.
var errUnavailable = errors.New("the server did not answer")

// status contains the fields of a metav1.Status that distinguish outcomes.
type status struct {
	Code            int
	Reason, Message string
}

func (s status) outcome() (outcome, error) {
	switch {
	case s.Reason == "NotFound":
		return missing, nil
	case s.Reason == "AlreadyExists":
		return exists, nil
	case s.Reason == "Conflict":
		return conflict, nil
	case s.Code >= http.StatusInternalServerError, s.Code == http.StatusTooManyRequests:
		return unknown, fmt.Errorf("%w: %d %s", errUnavailable, s.Code, s.Message)
	}
	return unknown, fmt.Errorf("unexpected answer: %d %s: %s", s.Code, s.Reason, s.Message)
}

// do sends a request and decodes the response into into. It returns an error if the outcome is unknown. The
// error is errUnavailable if the server is the cause.
func (c *client) do(ctx context.Context, method, path string, body, into any) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.timeout, requestTimeout))
	defer cancel()
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return unknown, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return unknown, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		s := status{Message: string(data)}
		_ = json.Unmarshal(data, &s) // a body that is not a Status is a message
		s.Code = resp.StatusCode
		return s.outcome()
	}
	if err := json.Unmarshal(data, into); err != nil {
		return unknown, fmt.Errorf("read the answer to %s %s: %w", method, path, err)
	}
	return done, nil
}

func (c *client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	return resp, nil
}

func (c *client) one(ctx context.Context, method, path string, body any) (object, outcome, error) {
	var doc document
	out, err := c.do(ctx, method, path, body, &doc)
	if out != done || err != nil {
		return object{}, out, err
	}
	o, err := doc.object()
	return o, done, err
}

func (c *client) get(ctx context.Context, name string) (object, outcome, error) {
	return c.one(ctx, http.MethodGet, "/"+name, nil)
}

func (c *client) create(ctx context.Context, o object) (object, outcome, error) {
	o.revision = 0
	return c.one(ctx, http.MethodPost, "", c.document(o))
}

// update replaces an object. If o.revision is not 0, the stored object must be at this revision.
func (c *client) update(ctx context.Context, o object) (object, outcome, error) {
	return c.one(ctx, http.MethodPut, "/"+o.name, c.document(o))
}

// remove deletes an object. If revision is not 0, the stored object must be at this revision.
func (c *client) remove(ctx context.Context, name string, revision int64) (object, outcome, error) {
	var options any
	if revision != 0 {
		options = map[string]any{
			"apiVersion": "v1", "kind": "DeleteOptions",
			"preconditions": map[string]string{"resourceVersion": strconv.FormatInt(revision, 10)},
		}
	}
	return c.one(ctx, http.MethodDelete, "/"+name, options)
}

// list returns all objects and the revision of the list.
func (c *client) list(ctx context.Context) (map[string]object, int64, outcome, error) {
	var list struct {
		Metadata metadata
		Items    []document
	}
	out, err := c.do(ctx, http.MethodGet, "", nil, &list)
	if out != done || err != nil {
		return nil, 0, out, err
	}
	objects := make(map[string]object, len(list.Items))
	for i := range list.Items {
		o, err := list.Items[i].object()
		if err != nil {
			return nil, 0, unknown, err
		}
		objects[o.name] = o
	}
	revision, err := strconv.ParseInt(list.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return nil, 0, unknown, fmt.Errorf("read the resourceVersion of a list: %w", err)
	}
	return objects, revision, done, nil
}

// watch opens a watch, with bookmarks, of the objects that sel selects. The watch starts after the revision
// from. If timeout is positive, it is sent to the server as the timeout of the watch.
func (c *client) watch(ctx context.Context, sel selector, from int64, timeout time.Duration) (*http.Response, error) {
	query := url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {strconv.FormatInt(from, 10)},
	}
	if sel.group != "" {
		query.Set("labelSelector", "group="+sel.group)
	}
	if sel.name != "" {
		query.Set("fieldSelector", "metadata.name="+sel.name)
	}
	if timeout > 0 {
		query.Set("timeoutSeconds", strconv.Itoa(int(timeout/time.Second)))
	}
	return c.send(ctx, http.MethodGet, "?"+query.Encode(), nil)
}
