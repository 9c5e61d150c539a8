package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/history"
)

// historyClient reads the history of a server.
type historyClient struct {
	*apiClient
	// namespace is the namespace of objects; "" for all namespaces.
	namespace string
	// resources are the served resources, loaded on first use.
	resources []apiResource
}

// historyFlags are the flags of commands that select changes.
type historyFlags struct {
	kubeconfig, namespace string
	allNamespaces         bool
	since, until, user    string
	selector              string
}

func (f *historyFlags) addTo(flags *pflag.FlagSet, since string) {
	flags.SortFlags = false
	flags.StringVarP(&f.namespace, "namespace", "n", metav1.NamespaceDefault, "namespace of the objects")
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "objects of all namespaces, and objects without a namespace")
	flags.StringVar(&f.since, "since", since, "only changes after a time such as 2026-11-27T14:02:00Z, or of the last 15m or 48h")
	flags.StringVar(&f.until, "until", "", "only changes before a time, or before an age such as 10m")
	flags.StringVar(&f.user, "user", "", "only changes by a user")
	flags.StringVarP(&f.selector, "selector", "l", "", "only changes of objects with these labels")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the server and the user (default: $KUBECONFIG, or ./mainstay-data/admin.kubeconfig)")
}

func (f *historyFlags) client() (*historyClient, error) {
	client, err := newAPIClient(f.kubeconfig)
	if err != nil {
		return nil, err
	}
	c := &historyClient{apiClient: client, namespace: f.namespace}
	if f.allNamespaces {
		c.namespace = ""
	}
	return c, nil
}

// query returns the parameters of a list of changes. object may be nil.
func (f *historyFlags) query(object *objectPath) url.Values {
	var fields []string
	add := func(name, value string) {
		if value != "" {
			fields = append(fields, name+"="+escapeSelector(value))
		}
	}
	add("since", f.since)
	add("until", f.until)
	add("user", f.user)
	if object != nil {
		add("object.resource", object.resource.groupResource().String())
		add("object.name", object.name)
	}
	query := url.Values{}
	if len(fields) > 0 {
		query.Set("fieldSelector", strings.Join(fields, ","))
	}
	if f.selector != "" {
		query.Set("labelSelector", f.selector)
	}
	return query
}

// escapeSelector escapes the special characters of a value of a field selector.
func escapeSelector(value string) string {
	return strings.NewReplacer(`\`, `\\`, `,`, `\,`, `=`, `\=`).Replace(value)
}

// changes returns the changes that match a query, the oldest first.
func (c *historyClient) changes(ctx context.Context, object *objectPath, query url.Values) ([]history.Change, error) {
	path := "/apis/history.mainstay.dev/v1/changes"
	if c.namespace != "" && (object == nil || object.namespace != "") {
		path = "/apis/history.mainstay.dev/v1/namespaces/" + url.PathEscape(c.namespace) + "/changes"
	}
	var all []history.Change
	for {
		query.Set("limit", apiPageSize)
		var page struct {
			Metadata metav1.ListMeta  `json:"metadata"`
			Items    []history.Change `json:"items"`
		}
		if err := c.do(ctx, http.MethodGet, path+"?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Metadata.Continue == "" {
			return all, nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}

// change returns a change of a list with the states of its object.
func (c *historyClient) change(ctx context.Context, listed *history.Change) (*history.Change, error) {
	path := "/apis/history.mainstay.dev/v1/"
	if listed.Namespace != "" {
		path += "namespaces/" + url.PathEscape(listed.Namespace) + "/"
	}
	var list struct{ Items []history.Change }
	// A list, because an object without a namespace has no path for its change.
	if err := c.do(ctx, http.MethodGet, path+"changes?fieldSelector=metadata.name%3D"+listed.Name, nil, &list); err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("the change %s is no longer in the history", listed.Name)
	}
	return &list.Items[0], nil
}

// apiResource is a served resource.
type apiResource struct {
	metav1.APIResource
	version schema.GroupVersion
}

func (r *apiResource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.version.Group, Resource: r.Name}
}

// discover returns the resources of the preferred versions, without subresources.
func (c *historyClient) discover(ctx context.Context) ([]apiResource, error) {
	if c.resources != nil {
		return c.resources, nil
	}
	versions := []schema.GroupVersion{{Version: "v1"}}
	var groups metav1.APIGroupList
	if err := c.doAccepting(ctx, "application/json", http.MethodGet, "/apis", nil, &groups); err != nil {
		return nil, err
	}
	for _, group := range groups.Groups {
		versions = append(versions, schema.GroupVersion{Group: group.Name, Version: group.PreferredVersion.Version})
	}
	for _, gv := range versions {
		var list metav1.APIResourceList
		if err := c.do(ctx, http.MethodGet, versionPath(gv), nil, &list); err != nil {
			continue // an aggregated server that is not available
		}
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") {
				c.resources = append(c.resources, apiResource{r, gv})
			}
		}
	}
	return c.resources, nil
}

func versionPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.String()
}

// find returns the resource with a name as in kubectl: the plural, singular or short name, or the kind,
// optionally followed by the group.
func (c *historyClient) find(ctx context.Context, name string) (*apiResource, error) {
	resources, err := c.discover(ctx)
	if err != nil {
		return nil, err
	}
	short, group, qualified := strings.Cut(strings.ToLower(name), ".")
	for i := range resources {
		r := &resources[i]
		known := r.Name == short || r.SingularName == short || strings.ToLower(r.Kind) == short || slices.Contains(r.ShortNames, short)
		if known && (!qualified || r.version.Group == group) {
			return r, nil
		}
	}
	return nil, fmt.Errorf("the server has no resource %q", name)
}

// objectPath locates an object.
type objectPath struct {
	resource  *apiResource
	namespace string // "" for an object without a namespace
	name      string
}

// object parses an argument such as deploy/web, or two arguments.
func (c *historyClient) object(ctx context.Context, args []string) (*objectPath, error) {
	kind, name := "", ""
	switch len(args) {
	case 1:
		kind, name, _ = strings.Cut(args[0], "/")
	case 2:
		kind, name = args[0], args[1]
	}
	if kind == "" || name == "" || strings.Contains(name, "/") {
		return nil, &usageError{errors.New("the object must be specified as KIND/NAME, such as deploy/web")}
	}
	resource, err := c.find(ctx, kind)
	if err != nil {
		return nil, err
	}
	object := &objectPath{resource: resource, name: name}
	if resource.Namespaced {
		if object.namespace = c.namespace; object.namespace == "" {
			return nil, &usageError{errors.New("an object in a namespace requires --namespace")}
		}
	}
	return object, nil
}
