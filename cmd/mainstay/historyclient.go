package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/history"
)

// historyClient reads the history of a server.
type historyClient struct {
	*apiClient
	// namespace selects the objects of one namespace; "" selects all namespaces.
	namespace string
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
	flags.StringVar(&f.user, "user", "", "only changes by a user")
	flags.StringVarP(&f.selector, "selector", "l", "", "only changes of objects with these labels")
	kubeconfigVar(flags, &f.kubeconfig)
}

// addUntil defines the flag --until.
func (f *historyFlags) addUntil(flags *pflag.FlagSet) {
	flags.StringVar(&f.until, "until", "", "only changes before a time, or before an age such as 10m")
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

// query returns the query parameters that select changes. object may be nil.
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
		add("object.resource", object.resource.String())
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

// changes returns the changes that match a query, oldest first.
func (c *historyClient) changes(ctx context.Context, object *objectPath, query url.Values) ([]history.Change, error) {
	path := "/apis/history.mainstay.dev/v1/changes"
	if c.namespace != "" && (object == nil || object.namespace != "") {
		path = "/apis/history.mainstay.dev/v1/namespaces/" + url.PathEscape(c.namespace) + "/changes"
	}
	return listAll[history.Change](ctx, c.apiClient, path, query)
}

// change reads a listed change again, including the states of its object before and after the change.
func (c *historyClient) change(ctx context.Context, listed *history.Change) (*history.Change, error) {
	path := "/apis/history.mainstay.dev/v1/"
	if listed.Namespace != "" {
		path += "namespaces/" + url.PathEscape(listed.Namespace) + "/"
	}
	var list struct{ Items []history.Change }
	// This is a list request, because the change of an object without a namespace has no path of its own.
	if err := c.do(ctx, http.MethodGet, path+"changes?fieldSelector=metadata.name%3D"+listed.Name, nil, &list); err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("the change %s is no longer in the history", listed.Name)
	}
	return &list.Items[0], nil
}

// states returns the object's state before its first change and after its last one, and the first change
// itself, including its before and after states.
func (c *historyClient) states(ctx context.Context, changed changedObject) (before, after map[string]any, first *history.Change, err error) {
	if first, err = c.change(ctx, changed.first); err != nil {
		return nil, nil, nil, err
	}
	last := first
	if changed.last != changed.first {
		if last, err = c.change(ctx, changed.last); err != nil {
			return nil, nil, nil, err
		}
	}
	return first.Before, last.After, first, nil
}

// objectName returns the name of a changed object, such as deployments.apps/web.
func objectName(c *history.Change) string { return c.Object.Resource + "/" + c.Object.Name }

// describeObject returns the name and namespace of a changed object, as arguments of a command.
func describeObject(c *history.Change) string {
	if c.Namespace == "" {
		return objectName(c)
	}
	return objectName(c) + " -n " + c.Namespace
}

// versionPath returns the URL path of a group version.
func versionPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.String()
}

// objectPath identifies an object.
type objectPath struct {
	resource  schema.GroupResource
	namespace string // "" for an object without a namespace
	name      string
}

// object parses one argument such as deploy/web, or two arguments such as deploy web. Without arguments, it
// returns nil.
func (c *historyClient) object(ctx context.Context, args []string) (*objectPath, error) {
	kind, name := "", ""
	switch len(args) {
	case 0:
		return nil, nil
	case 1:
		kind, name, _ = strings.Cut(args[0], "/")
	case 2:
		kind, name = args[0], args[1]
	}
	if kind == "" || name == "" || strings.Contains(name, "/") {
		return nil, &usageError{errors.New("the object must be specified as KIND/NAME, such as deploy/web")}
	}
	found, err := findResource(ctx, c.apiClient, strings.ToLower(kind))
	if err != nil {
		return nil, err
	}
	object := &objectPath{resource: schema.GroupResource{Group: found.group, Resource: found.Resource}, name: name}
	if found.isNamespaced() {
		if object.namespace = c.namespace; object.namespace == "" {
			return nil, &usageError{errors.New("an object in a namespace requires --namespace")}
		}
	}
	return object, nil
}
