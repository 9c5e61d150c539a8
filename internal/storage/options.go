package storage

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// ValidateListOptions returns an error for each invalid combination of options of a list or a watch; nil
// if the options are valid. The errors are the causes of kube-apiserver's 422 response for a
// ListOptions.meta.k8s.io.
func ValidateListOptions(options rest.ListOptions, watch bool) field.ErrorList {
	return validation.ValidateListOptions(&internalversion.ListOptions{
		Watch:                watch,
		ResourceVersion:      options.ResourceVersion,
		ResourceVersionMatch: options.ResourceVersionMatch,
		Limit:                options.Limit,
		Continue:             options.Continue,
		AllowWatchBookmarks:  options.AllowBookmarks,
		SendInitialEvents:    options.SendInitialEvents,
	}, true)
}

// Selection describes the objects that a list or watch selects, by a range of keys and by selectors. It is
// immutable once a plan contains it.
type Selection struct {
	// Prefix is the prefix of all keys. Keys are at least Start, and less than End if End is not empty.
	Prefix, Start, End string
	// Labels and Fields are the selectors; nil selects everything.
	Labels labels.Selector
	Fields fields.Selector
	// Namespaces are the namespaces to which a selection of namespaced objects is limited; nil means no
	// limit.
	Namespaces *request.Namespaces
	// root is the prefix of keys before the namespace.
	root string
}

// Unfiltered reports whether the selection has no selectors, so that it contains all objects of its
// ranges.
func (sel *Selection) Unfiltered() bool { return sel.Labels == nil && sel.Fields == nil }

// Ranges iterates over the selected key ranges in order: one range for each of the Namespaces, or a single
// range if Namespaces is nil.
func (sel *Selection) Ranges(yield func(start, end string) bool) {
	if sel.Namespaces == nil {
		yield(sel.Start, sel.End)
		return
	}
	for _, namespace := range sel.Namespaces.Names() {
		prefix := sel.root + namespace + "/"
		start, end := max(sel.Start, prefix), kv.PrefixEnd(prefix)
		if sel.End != "" {
			end = min(end, sel.End)
		}
		if start < end && !yield(start, end) {
			return
		}
	}
}

// Select resolves the namespace and selectors of a request. A field selector that requires one name or
// namespace narrows the range. The error is an *InvalidOptionError for an invalid namespace.
func (s *Store) Select(namespace string, options rest.ListOptions) (Selection, error) {
	var sel Selection
	if options.Labels != nil && !options.Labels.Empty() {
		sel.Labels = options.Labels
	}
	if options.Fields != nil && !options.Fields.Empty() {
		sel.Fields = options.Fields
	}
	if namespace == "" && s.namespaced {
		namespace = sel.requiredSegment("metadata.namespace")
	}
	prefix, err := s.scope(namespace)
	if err != nil {
		return Selection{}, err
	}
	if s.namespaced {
		sel.Namespaces, sel.root = options.Namespaces, s.prefix
	}
	sel.Prefix, sel.Start, sel.End = prefix, prefix, kv.PrefixEnd(prefix)
	if name := sel.requiredSegment("metadata.name"); name != "" && (namespace != "" || !s.namespaced) {
		sel.Start, sel.End = prefix+name, prefix+name+"\x00"
	}
	return sel, nil
}

// requiredSegment returns the value that the field selector requires for a field. It returns the empty string
// if the selector requires no exact value, or if the value cannot be a segment of a key.
func (sel *Selection) requiredSegment(name string) string {
	if sel.Fields == nil {
		return ""
	}
	value, ok := sel.Fields.RequiresExactMatch(name)
	if !ok || len(path.IsValidPathSegmentName(value)) > 0 {
		return ""
	}
	return value
}

// ListPlan is a resolved list request.
type ListPlan struct {
	Selection
	// At is the exact revision of the list; if it is 0, Min and Any determine the revision.
	At kv.Revision
	// Min is the oldest acceptable revision if At is 0.
	Min kv.Revision
	// Any accepts any revision from Min on, such as the revision of the cache; otherwise the newest
	// revision is required.
	Any bool
	// Limit is the maximum number of objects of a page; 0 means no limit.
	Limit int64
	// continued is set for all pages after the first.
	continued bool
}

// PlanList resolves a list request by the rules of the Kubernetes API concepts page. The options must have
// passed ValidateListOptions. The error is an *InvalidOptionError. PlanList does not block.
func (s *Store) PlanList(namespace string, options rest.ListOptions) (*ListPlan, error) {
	sel, err := s.Select(namespace, options)
	if err != nil {
		return nil, err
	}
	plan := &ListPlan{Selection: sel, Limit: max(options.Limit, 0)}
	// As in kube-apiserver's cache, a list with resourceVersion 0 is not paged.
	if options.ResourceVersion == "0" {
		plan.Limit = 0
	}
	if options.Continue != "" {
		return plan, plan.resume(options)
	}
	rv, err := ParseResourceVersion(options.ResourceVersion)
	if err != nil {
		return nil, &InvalidOptionError{"invalid resource version: " + err.Error()}
	}
	switch options.ResourceVersionMatch {
	case metav1.ResourceVersionMatchExact:
		plan.At = rv
	case metav1.ResourceVersionMatchNotOlderThan:
		plan.Min, plan.Any = rv, true
	case "":
		if options.ResourceVersion == "" {
			break
		}
		if rv > 0 && plan.Limit > 0 {
			// Without resourceVersionMatch, a resource version with a limit is exact, as before the
			// parameter existed.
			plan.At = rv
		} else {
			plan.Min, plan.Any = rv, true
		}
	default:
		return nil, fmt.Errorf("unknown ResourceVersionMatch value: %s", options.ResourceVersionMatch)
	}
	return plan, nil
}

// resume sets Start and At of the plan from a continue token.
func (p *ListPlan) resume(options rest.ListOptions) error {
	start, rv, err := decodeContinue(options.Continue, p.Prefix)
	if err != nil {
		return &InvalidOptionError{"invalid continue token: " + err.Error()}
	}
	if options.ResourceVersion != "" && options.ResourceVersion != "0" {
		return &InvalidOptionError{"specifying resource version is not allowed when using continue"}
	}
	p.continued = true
	p.Start = max(p.Start, start)
	if rv > 0 {
		p.At = kv.Revision(rv)
	}
	return nil
}

// Expired returns the *ExpiredError for a list whose revision is compacted. For a later page, the error
// contains a token that continues at the newest revision.
func (p *ListPlan) Expired() error {
	if !p.continued {
		return &ExpiredError{Message: listTooOld}
	}
	return &ExpiredError{Message: continueTooOld, Continue: encodeContinue(p.Start, p.Prefix, newestRevision)}
}
