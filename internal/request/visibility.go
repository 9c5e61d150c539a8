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

// compareNames orders namespaces like the storage keys of their objects. In a key, a slash follows
// the namespace, so "a-b" sorts before "a".
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

// Names returns the names in the order of their objects' storage keys, or nil if the set contains
// all namespaces. The slice is shared and must not be modified.
func (n *Namespaces) Names() []string {
	if n == nil {
		return nil
	}
	return n.names
}

// Equal reports whether two sets contain the same namespaces.
func (n *Namespaces) Equal(other *Namespaces) bool {
	if n == nil || other == nil {
		return n == other
	}
	return slices.Equal(n.names, other.names)
}

// Without returns the set of the namespaces of n that are not in other. If n contains all
// namespaces, the result does too.
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

// Visibility determines which namespaces a list or watch of all namespaces may include. This set changes with
// the permissions of the user. All methods except Now take the revision that the client will receive. The
// implementation uses these revisions to determine whether a client has received the objects of an earlier set;
// a watch cannot resume from the revision of an earlier set. A Visibility is safe for concurrent use.
type Visibility interface {
	// Now returns the current set, which may change at any time.
	Now() *Namespaces
	// IsCurrent reports whether of is still the current set. If it is not, a list of these
	// namespaces at the given revision must not be sent.
	IsCurrent(of *Namespaces, revision int64) bool
	// Resume returns the namespaces of a watch that resumes from a revision, and a channel that is
	// closed when these namespaces may have changed. ok is false if the client may have received
	// other namespaces at that revision.
	Resume(revision int64) (now *Namespaces, changed <-chan struct{}, ok bool)
	// Advance must be called before a watch sends the changes up to a revision. It returns the
	// namespaces that the watch includes from now on; of contains the previous ones. If the two
	// sets differ, the watch also sends events for the difference, with revisions up to this one.
	// ok is false if the client must list again.
	Advance(of *Namespaces, revision int64) (now *Namespaces, changed <-chan struct{}, ok bool)
}

// SetVisibility limits a list or watch of all namespaces. The handler must respect it.
func SetVisibility(ctx context.Context, v Visibility) {
	if s := scopeFrom(ctx); s != nil {
		s.visibility = v
	}
}

// VisibilityFrom returns the limit of a list or watch of all namespaces, or nil if there is no limit.
func VisibilityFrom(ctx context.Context) Visibility {
	if s := scopeFrom(ctx); s != nil {
		return s.visibility
	}
	return nil
}
