// Package request defines the data of a request and the context that contains it. The data includes the Info of
// the path and method, the route, the user and the data for audit events. Filters set the data; filters and
// handlers read it. The package makes no decisions and writes no responses.
package request

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
)

// Info is a parsed request line. Parse derives the verb, the resource and the name from the method, path and
// query, according to the path grammar of the Kubernetes API:
//
//	/api/{version}/...                  the core group
//	/apis/{group}/{version}/...         every other group
//	.../namespaces/{namespace}/{resource}/{name}/{subresource}/{tail...}
//	.../{resource}/{name}/{subresource}/{tail...}
//	.../watch/...                       the deprecated form of ?watch=true
//
// All other requests are non-resource requests. They have only a Path and a Verb, which is the method
// in lower case.
type Info struct {
	// IsResource reports whether the path has the form of a resource path.
	IsResource bool
	// Path is the decoded URL path (http.Request.URL.Path).
	Path string
	// Verb is the Kubernetes verb (get, list, watch, create, update, patch,
	// delete, deletecollection) or, for non-resource requests, the HTTP method
	// in lower case.
	Verb string
	// Group and Version are the names in the path. Group is "" for the core group.
	Group, Version string
	// Namespace is empty for cluster-scoped resources and for requests across all namespaces. For a
	// request for a Namespace object, it is the name of the object.
	Namespace string
	// Resource is the plural resource name; Subresource is the path segment after the object's
	// name.
	Resource, Subresource string
	// Name is the name of the object; empty for collections. For a list or watch with the field
	// selector metadata.name=NAME, it is NAME, because authorization uses it.
	Name string
	// NameInPath reports whether the path contains the Name.
	NameInPath bool
	// Tail is the path after the subresource, without its leading slash.
	Tail string
	// DeprecatedWatch reports whether the watch was requested by a path with the segment "watch"
	// instead of by the query.
	DeprecatedWatch bool
	// Unroutable reports whether the path cannot belong to any resource, although it has the form
	// of a resource path: a required segment is empty, or the path requests the deprecated watch of
	// a subresource. Such a request is authorized like others, but the response must be a 404,
	// because its attributes do not describe an action.
	Unroutable bool
	// FieldSelector and LabelSelector are the selectors of a collection request, as sent, for
	// authorization. As in kube-apiserver, they are empty for deprecated watches, which may watch a
	// single object.
	FieldSelector, LabelSelector string
	// AsOf is a revision at which a get request reads the object; 0 means the normal behavior. Only
	// fault injection in tests sets it.
	AsOf int64
}

// Prefixes of resource paths.
const (
	corePrefix    = "api"
	groupedPrefix = "apis"
)

// namespaceSubresources are the subresources of a Namespace. Other segments after
// /namespaces/{name} are resources.
var namespaceSubresources = [...]string{"status", "finalize"}

// Parse parses the request line. If the line is invalid, Parse returns the Info of a non-resource request, and
// an error whose text is the message of the 400 response.
func Parse(r *http.Request) (Info, error) {
	info := Info{Path: r.URL.Path, Verb: strings.ToLower(r.Method)}
	parts := splitPath(r.URL.Path)
	if len(parts) < 3 || parts[0] != corePrefix && parts[0] != groupedPrefix {
		return info, nil // discovery, health, metrics, ...
	}
	grouped := parts[0] == groupedPrefix
	rest := parts[1:]
	if grouped {
		if len(rest) < 3 {
			return info, nil // /apis/{group}/{version} is discovery
		}
		info.Group, rest = rest[0], rest[1:]
	}
	info.IsResource = true
	info.Version, rest = rest[0], rest[1:]
	info.Verb = methodVerb(r.Method)

	if rest[0] == "watch" {
		if len(rest) < 2 {
			nonResource := Info{Path: info.Path, Verb: strings.ToLower(r.Method)}
			return nonResource, fmt.Errorf("unable to determine kind and namespace from url, %v", r.URL.Path)
		}
		info.Verb, info.DeprecatedWatch = "watch", true
		rest = rest[1:]
	}
	info.parseResource(rest)
	info.refineVerb(r.URL.RawQuery)
	return info, nil
}

func (i *Info) parseResource(rest []string) {
	if rest[0] == "namespaces" && len(rest) > 1 {
		i.Namespace = rest[1]
		if len(rest) > 2 && !slices.Contains(namespaceSubresources[:], rest[2]) {
			rest = rest[2:]
		}
	}
	i.Resource = rest[0]
	if len(rest) > 1 {
		i.Name, i.NameInPath = rest[1], true
	}
	if len(rest) > 2 {
		i.Subresource = rest[2]
	}
	if len(rest) > 3 {
		i.Tail = strings.Join(rest[3:], "/")
	}
	// The namespace may be empty, because kube-apiserver serves /namespaces//pods like /pods.
	i.Unroutable = i.Resource == "" || len(rest) > 1 && i.Name == "" || len(rest) > 2 && i.Subresource == "" ||
		i.DeprecatedWatch && len(rest) > 2
}

// refineVerb distinguishes the verbs with the same HTTP method, and reads the selectors of a request
// for a collection.
func (i *Info) refineVerb(rawQuery string) {
	if i.Name != "" {
		return
	}
	switch i.Verb {
	case "delete":
		i.Verb = "deletecollection"
	case "get":
		i.Verb = "list"
	case "watch":
	default:
		return
	}
	if rawQuery == "" {
		return
	}
	query, _ := url.ParseQuery(rawQuery) // the option decoder reports a malformed query later
	if i.Verb == "list" && isTrue(query, "watch") {
		i.Verb = "watch"
	}
	if !i.DeprecatedWatch {
		i.FieldSelector, i.LabelSelector = query.Get("fieldSelector"), query.Get("labelSelector")
	}
	if i.Verb == "deletecollection" {
		return
	}
	if selector, err := fields.ParseSelector(query.Get("fieldSelector")); err == nil {
		if name, ok := selector.RequiresExactMatch("metadata.name"); ok && validPathSegment(name) {
			i.Name = name
		}
	}
}

// isTrue parses a boolean query parameter like option decoding does: a missing parameter, 0 and false, in upper or
// lower case, are false, and all other values are true.
func isTrue(query url.Values, name string) bool {
	values := query[name]
	return len(values) > 0 && values[0] != "0" && !strings.EqualFold(values[0], "false")
}

func validPathSegment(name string) bool {
	return name != "." && name != ".." && !strings.ContainsAny(name, "/%")
}

func methodVerb(method string) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodGet, http.MethodHead:
		return "get"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	return ""
}

func splitPath(path string) []string {
	path = strings.Trim(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}
