package ownership

import (
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// mark contains the properties of a node, except its children.
type mark uint8

const (
	// member means that the field itself is in the set.
	member mark = 1 << iota
	// removed means, in the result of a comparison, that the field no longer exists. Added and changed
	// fields are members.
	removed
)

// A node is a field of a set together with the fields below it. The nodes of a set are sorted by
// element. Each node has a mark or children. Nodes are shared and immutable.
type node struct {
	element  element
	mark     mark
	children []node
}

// nodes allocates slices of nodes from larger chunks.
type nodes struct{ free []node }

const nodesPerChunk = 128

// clone returns a copy of a slice without spare capacity.
func (a *nodes) clone(list []node) []node {
	n := len(list)
	if n == 0 {
		return nil
	}
	if n > len(a.free) {
		a.free = make([]node, max(n, nodesPerChunk))
	}
	kept := a.free[:n:n]
	a.free = a.free[n:]
	copy(kept, list)
	return kept
}

// findNode returns the node of an element, or nil.
func findNode(list []node, e element) *node {
	i, ok := slices.BinarySearchFunc(list, e, func(n node, e element) int { return strings.Compare(n.element, e) })
	if !ok {
		return nil
	}
	return &list[i]
}

// overlaps reports whether a field of set has a mark in changes.
func overlaps(set, changes []node) bool {
	for i, j := 0, 0; i < len(set) && j < len(changes); {
		switch s, c := &set[i], &changes[j]; strings.Compare(s.element, c.element) {
		case -1:
			i++
		case 1:
			j++
		default:
			if s.mark != 0 && c.mark != 0 || overlaps(s.children, c.children) {
				return true
			}
			i, j = i+1, j+1
		}
	}
	return false
}

// contains reports whether all members of part are members of set.
func contains(set, part []node) bool {
	i := 0
	for j := range part {
		p := &part[j]
		for i < len(set) && set[i].element < p.element {
			i++
		}
		if i == len(set) || set[i].element != p.element {
			if hasMember(part[j : j+1]) {
				return false
			}
			continue
		}
		if p.mark&member != 0 && set[i].mark&member == 0 || !contains(set[i].children, p.children) {
			return false
		}
	}
	return true
}

func hasMember(list []node) bool {
	for i := range list {
		if list[i].mark&member != 0 || hasMember(list[i].children) {
			return true
		}
	}
	return false
}

// A builder builds sets. Its stack contains the nodes of the lists under construction. The nodes of
// a list are above the nodes of its parent.
type builder struct {
	nodes
	stack []node
}

// popList removes the nodes above n from the stack and returns them as a list.
func (b *builder) popList(n int) []node {
	list := b.clone(b.stack[n:])
	b.stack = b.stack[:n]
	return list
}

// push adds a node to the stack, unless it has neither a mark nor children.
func (b *builder) push(e element, m mark, children []node) {
	if m != 0 || len(children) > 0 {
		b.stack = append(b.stack, node{e, m, children})
	}
}

// subtract returns set without the fields that have a mark in changes. Fields below them are
// preserved. If no field is removed, it returns set itself. It visits each node at most once.
func (b *builder) subtract(set, changes []node) []node {
	n, same := len(b.stack), true
	for i, j := 0, 0; i < len(set); i++ {
		s := set[i]
		for j < len(changes) && changes[j].element < s.element {
			j++
		}
		if same && j == len(changes) {
			return set
		}
		if j < len(changes) && changes[j].element == s.element {
			if changes[j].mark != 0 {
				s.mark = 0
			}
			s.children = b.subtract(s.children, changes[j].children)
		}
		if same && s.mark == set[i].mark && sameNodes(s.children, set[i].children) {
			continue
		}
		if same {
			same = false
			b.stack = append(b.stack, set[:i]...)
		}
		b.push(s.element, s.mark, s.children)
	}
	if same {
		return set
	}
	return b.popList(n)
}

// union returns the union of the members of two sets. It drops marks other than member from y.
func (b *builder) union(x, y []node) []node {
	n := len(b.stack)
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		switch {
		case j == len(y) || i < len(x) && x[i].element < y[j].element:
			b.stack = append(b.stack, x[i])
			i++
		case i == len(x) || y[j].element < x[i].element:
			b.push(y[j].element, y[j].mark&member, b.members(y[j].children))
			j++
		default:
			b.push(x[i].element, x[i].mark|y[j].mark&member, b.union(x[i].children, y[j].children))
			i, j = i+1, j+1
		}
	}
	return b.popList(n)
}

// members returns the members of a comparison, as a set. If all marks are members, it returns changes itself. It visits
// each node once.
func (b *builder) members(changes []node) []node {
	n, same := len(b.stack), true
	for i := range changes {
		c := changes[i]
		c.mark &= member
		c.children = b.members(c.children)
		if same && c.mark == changes[i].mark && sameNodes(c.children, changes[i].children) {
			continue
		}
		if same {
			same = false
			b.stack = append(b.stack, changes[:i]...)
		}
		b.push(c.element, c.mark, c.children)
	}
	if same {
		return changes
	}
	return b.popList(n)
}

// exclude returns set without the members of out and the fields below them.
func (b *builder) exclude(set, out []node) []node {
	if len(out) == 0 {
		return set
	}
	n := len(b.stack)
	for i := range set {
		s := &set[i]
		o := findNode(out, s.element)
		switch {
		case o == nil:
			b.stack = append(b.stack, *s)
		case o.mark&member == 0:
			b.push(s.element, s.mark, b.exclude(s.children, o.children))
		}
	}
	return b.popList(n)
}

// fromSet converts a fieldpath.Set to nodes.
func (b *builder) fromSet(set *fieldpath.Set) ([]node, error) {
	var list []node
	var failed error
	add := func(pe fieldpath.PathElement, m mark, children []node) {
		e, err := elementOf(pe)
		if err != nil {
			failed = err
		}
		list = append(list, node{e, m, children})
	}
	set.Members.Iterate(func(pe fieldpath.PathElement) { add(pe, member, nil) })
	set.Children.Iterate(func(pe fieldpath.PathElement) {
		below, _ := set.Children.Get(pe)
		children, err := b.fromSet(below)
		if err != nil {
			failed = err
		}
		var m mark
		if set.Members.Has(pe) {
			m = member
			e, _ := elementOf(pe)
			list = slices.DeleteFunc(list, func(n node) bool { return n.element == e })
		}
		add(pe, m, children)
	})
	slices.SortFunc(list, func(x, y node) int { return strings.Compare(x.element, y.element) })
	return list, failed
}
