package request

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// Namespaces is an immutable set of namespaces. A nil *Namespaces contains all namespaces.
type Namespaces struct{ names []string }

// NewNamespaces returns a set of names, and takes ownership of the slice. Without names, the set is
// empty.
func NewNamespaces(names []string) *Namespaces {
	slices.SortFunc(names, compareNames)
	return &Namespaces{slices.Compact(names)}
}

// compareNames orders namespaces like the keys of their objects, which append a slash: "a-b" sorts
// before "a".
func compareNames(a, b string) int {
	n := min(len(a), len(b))
	switch c := strings.Compare(a[:n], b[:n]); {
	case c != 0 || len(a) == len(b):
		return c
	case len(a) == n:
		return cmp.Compare('/', b[n])
	}
	return cmp.Compare(a[n], '/')
}

// Has reports whether a namespace is in the set.
func (n *Namespaces) Has(name string) bool {
	if n == nil {
		return true
	}
	_, found := slices.BinarySearchFunc(n.names, name, compareNames)
	return found
}

// Names returns the names in the order of the keys of their objects; nil for the set of all
// namespaces. The slice is shared and must not be modified.
func (n *Namespaces) Names() []string {
	if n == nil {
		return nil
	}
	return n.names
}

// Equal reports whether two sets have the same namespaces.
func (n *Namespaces) Equal(other *Namespaces) bool {
	if n == nil || other == nil {
		return n == other
	}
	return slices.Equal(n.names, other.names)
}

// Without returns the set of the names of n that are not in other. For the set of all namespaces, it
// returns the same set.
func (n *Namespaces) Without(other *Namespaces) *Namespaces {
	if n == nil {
		return nil
	}
	var left []string
	for _, name := range n.names {
		if !other.Has(name) {
			left = append(left, name)
		}
	}
	return &Namespaces{left}
}

// Visibility determines the namespaces in which the user of a list or watch over all namespaces may list or
// watch. The set changes with the permissions of the user. Each call except Now passes the revision that the
// client will receive, so that the implementation can determine whether a client received revisions of an
// earlier set, from which a watch cannot resume. It is safe for concurrent use.
type Visibility interface {
	// Now returns the current namespaces. They may change at any time.
	Now() *Namespaces
	// IsCurrent reports whether of is the current set for a list at a revision. If it is not, the
	// list must not be sent.
	IsCurrent(of *Namespaces, revision int64) bool
	// Resume returns the namespaces of a watch that resumes from a revision, and a channel that is
	// closed when they may have changed. It returns false if the client may have received other
	// namespaces at that revision.
	Resume(revision int64) (now *Namespaces, changed <-chan struct{}, ok bool)
	// Advance is called before a watch sends the changes up to a revision, and returns the
	// namespaces to send. If they differ from of, the watch also sends the difference, with
	// revisions up to this one. It returns false if the client must list again.
	Advance(of *Namespaces, revision int64) (now *Namespaces, changed <-chan struct{}, ok bool)
}

// SetVisibility limits a list or watch over all namespaces. The handler must respect it.
func SetVisibility(ctx context.Context, v Visibility) {
	if s := scopeFrom(ctx); s != nil {
		s.visibility = v
	}
}

// VisibilityFrom returns the limit of a list or watch over all namespaces, or nil.
func VisibilityFrom(ctx context.Context) Visibility {
	if s := scopeFrom(ctx); s != nil {
		return s.visibility
	}
	return nil
}
