package request

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// Namespaces is a set of namespaces. A nil one has all there are. It is immutable:
// sets that are one pointer are equal.
type Namespaces struct{ names []string }

// NewNamespaces returns the set of names, which become the set's. There may be none.
func NewNamespaces(names []string) *Namespaces {
	slices.SortFunc(names, compareNames)
	return &Namespaces{slices.Compact(names)}
}

// compareNames orders namespaces as the keys of their objects are, in which a slash
// follows: "a-b" comes before "a".
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

// Names returns the names in the order of their objects' keys, which must not be changed; nil for all namespaces.
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

// Without returns those of n that are not in other. All namespaces stay all.
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

// Visibility is in which namespaces the user of a list or watch over all of them may
// make it. It changes with the user's rights, and is asked together with a revision that
// the client is about to see: so it knows which revisions clients may have from a time
// when it was different, and that a watch cannot go on from there. It is safe for
// concurrent use.
type Visibility interface {
	// Now returns the namespaces, which may be out of date on return.
	Now() *Namespaces
	// Listed reports whether the namespaces are still those that a list at a revision was
	// made of. It must not be sent otherwise.
	Listed(of *Namespaces, revision int64) bool
	// Resume returns the namespaces for a watch that goes on from a revision, which must
	// have been reached, and a channel that is closed when they may have changed. It is
	// false where the client may have seen others at that revision.
	Resume(revision int64) (now *Namespaces, changed <-chan struct{}, ok bool)
	// Reached is called before a watch tells of the changes up to a revision, and returns
	// the namespaces by which it is to tell of them. Where they are not the same as of,
	// the watch tells of the difference, too, with revisions not greater than that one.
	// It is false where the client has to list anew instead.
	Reached(of *Namespaces, revision int64) (now *Namespaces, changed <-chan struct{}, ok bool)
}

// SetVisibility limits a list or watch over all namespaces. Whoever answers such a
// request must heed it.
func SetVisibility(ctx context.Context, v Visibility) {
	if s := from(ctx); s != nil {
		s.visibility = v
	}
}

// VisibilityFrom returns what limits a list or watch over all namespaces; nil: nothing does.
func VisibilityFrom(ctx context.Context) Visibility {
	if s := from(ctx); s != nil {
		return s.visibility
	}
	return nil
}
