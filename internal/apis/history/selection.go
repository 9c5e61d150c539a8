package history

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/archive"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// changeSelection specifies the changes that a list or watch returns.
type changeSelection struct {
	namespace      string // "" selects all
	namespaces     *request.Namespaces
	resource, name string // of the objects; "" selects all
	key            string // in the store, if one object is selected; "" reads all keys
	from, to       kv.Revision
	// newest is the newest revision at the time of the request. requested is the resourceVersion of the
	// request, or 0.
	newest, requested kv.Revision
	after             position // the last change of the previous page
	last              position // the last change that was read
	labels            labels.Selector
	fields            []fields.Requirement
	// states includes the states of the objects in the returned changes.
	states bool
}

// selectName limits the selection to the changes of one revision, and includes their states. fields must
// contain the requirement that selects one of these changes by name.
func (sel *changeSelection) selectName(revision kv.Revision) {
	sel.from, sel.to, sel.states = max(sel.from, revision), min(sel.to, revision), true
}

// selection returns the selection for the options of a list or watch. Invalid options cause an API error.
func (s *Storage) selection(ctx context.Context, namespace string, options rest.ListOptions) (*changeSelection, error) {
	newest, err := s.config.Archive.CatchUp(ctx)
	if err != nil {
		return nil, err
	}
	requested, err := storage.ParseResourceVersion(options.ResourceVersion)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if requested > newest {
		return nil, &storage.FutureRevisionError{Requested: int64(requested), Current: int64(newest)}
	}
	sel := &changeSelection{namespace: namespace, namespaces: options.Namespaces, labels: options.Labels, to: newest, newest: newest, requested: requested}
	oldest, _ := s.config.Archive.Oldest()
	sel.from = oldest
	if options.Fields != nil {
		for _, requirement := range options.Fields.Requirements() {
			if err := s.require(ctx, sel, requirement); err != nil {
				return nil, err
			}
		}
	}
	if options.Continue != "" {
		after, ok := parseToken(options.Continue)
		if !ok {
			return nil, apierrors.NewBadRequest("continue key is not valid: " + options.Continue)
		}
		if after.revision < oldest {
			return nil, &storage.ExpiredError{Message: fmt.Sprintf("the continue token is older than the history: it continues after revision %d, and the oldest revision is %d; list again without it", after.revision, oldest)}
		}
		sel.after, sel.from = after, max(sel.from, after.revision)
	}
	s.selectObject(sel)
	return sel, nil
}

// require applies a requirement of a field selector to sel.
func (s *Storage) require(ctx context.Context, sel *changeSelection, requirement fields.Requirement) error {
	if requirement.Field != sinceField && requirement.Field != untilField {
		sel.fields = append(sel.fields, requirement)
		return nil
	}
	if requirement.Operator == selection.NotEquals {
		return apierrors.NewBadRequest(requirement.Field + " requires the operator =")
	}
	if text, ok := strings.CutPrefix(requirement.Value, revisionPrefix); ok {
		revision, err := strconv.ParseInt(text, 10, 64)
		if err != nil || revision < 0 {
			return apierrors.NewBadRequest(fmt.Sprintf("%s is %q, which is not a resourceVersion", requirement.Field, requirement.Value))
		}
		sel.limit(requirement.Field, kv.Revision(revision))
		return nil
	}
	at, err := parseTime(requirement.Value, s.config.Now(ctx))
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("%s is %q; it must be a time such as 2026-11-27T14:02:00Z, an age such as 15m or 2d, or rv/ and a resourceVersion", requirement.Field, requirement.Value))
	}
	revision, err := s.revisionAt(ctx, at)
	if err != nil {
		return err
	}
	sel.limit(requirement.Field, revision)
	return nil
}

// revisionAt returns the newest known revision at a time, or 0 if the history begins after that time.
func (s *Storage) revisionAt(ctx context.Context, at time.Time) (kv.Revision, error) {
	revision, err := s.config.Archive.RevisionAt(ctx, at)
	var expired *archive.ExpiredError
	if errors.As(err, &expired) && !expired.From.IsZero() {
		revision, err = s.config.Archive.RevisionAt(ctx, expired.From) // at the beginning of the gap that contains at
	}
	if errors.As(err, &expired) {
		return 0, nil
	}
	return revision, err
}

// limit limits the selection to the changes after a revision if field is since, or to the changes up to and
// including a revision if field is until.
func (sel *changeSelection) limit(field string, revision kv.Revision) {
	if field == sinceField {
		sel.from = max(sel.from, min(revision, math.MaxInt64-1)+1)
		return
	}
	sel.to = min(sel.to, revision)
}

// selectObject copies the requirements of the field selector to the other fields of sel. It sets sel.key if
// the requirements select one object.
func (s *Storage) selectObject(sel *changeSelection) {
	for _, requirement := range sel.fields {
		if requirement.Operator == selection.NotEquals {
			continue
		}
		switch requirement.Field {
		case "object.resource":
			sel.resource = requirement.Value
		case "object.name":
			sel.name = requirement.Value
		case "metadata.name":
			if revision, ok := parseName(requirement.Value); ok {
				sel.selectName(revision)
			}
		case "metadata.namespace":
			if sel.namespace == "" {
				sel.namespace = requirement.Value
			}
		}
	}
	if sel.resource != "" && sel.name != "" {
		sel.key = s.config.Key(schema.ParseGroupResource(sel.resource), types.NamespacedName{Namespace: sel.namespace, Name: sel.name})
	}
}

// missing returns an error for each gap and each selected resource that lacks changes at or after a revision.
func (s *Storage) missing(sel *changeSelection, from kv.Revision) []*archive.ExpiredError {
	history := s.config.Archive
	only := "" // the selected resource, or "" if it has no own rule
	if sel.resource != "" {
		only = history.Resource(s.config.Key(schema.ParseGroupResource(sel.resource), types.NamespacedName{Name: "x"}))
	}
	return history.Missing(from, func(resource string) bool {
		if sel.resource != "" || resource == "" {
			return resource == only
		}
		_, ok := s.config.Parse(history.Prefix() + resource + "/x")
		return ok
	})
}

// expired returns the error for a list or watch that cannot continue.
func expired(verb string, missing []*archive.ExpiredError) error {
	return &storage.ExpiredError{Message: fmt.Sprintf("the %s cannot continue, because changes after it are no longer available: %v; list again without a continue token and resourceVersion", verb, missing[0])}
}

// includesObject reports whether the selection includes changes of an object.
func (sel *changeSelection) includesObject(o Object) bool {
	if sel.namespace != "" && o.Namespace != sel.namespace {
		return false
	}
	if sel.resource != "" && o.Resource.String() != sel.resource || sel.name != "" && o.Name != sel.name {
		return false
	}
	return sel.namespaces == nil || sel.namespaces.Has(o.Namespace)
}

// includes reports whether a change is in the selected range of revisions and after the previous page.
func (sel *changeSelection) includes(c *archive.Change) bool {
	if c.Revision < sel.from || c.Revision > sel.to {
		return false
	}
	return c.Revision > sel.after.revision || c.Revision == sel.after.revision && c.Key > sel.after.key
}

// matches reports whether a change matches the label selector and the field selector.
func (sel *changeSelection) matches(c *Change) bool {
	if sel.labels != nil && !sel.labels.Matches(labels.Set(c.Labels)) {
		return false
	}
	for _, requirement := range sel.fields {
		value, _ := c.field(requirement.Field)
		if (value == requirement.Value) == (requirement.Operator == selection.NotEquals) {
			return false
		}
	}
	return true
}
