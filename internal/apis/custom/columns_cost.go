package custom

import "k8s.io/client-go/util/jsonpath"

// maxSearch is how many places of an object a column is searched in. A path that
// looks at all that is below, and at all below that, may come by the same places
// in more ways than there is time or memory for.
const maxSearch = 2_000_000

// maxDescents is how often a path may do so and be searched for at all.
const maxDescents = 8

// multiplier is how a path may find more than an object holds.
type multiplier struct {
	// descents is how often it looks at all that is below.
	descents int
	// repeats is how often unions name the same.
	repeats float64
}

// multiplierOf returns that of a path as jsonpath.Parse takes it. Most have none.
func multiplierOf(path string) multiplier {
	m := multiplier{repeats: 1}
	parser, err := jsonpath.Parse("", path)
	if err != nil {
		return m // it is never searched
	}
	filters := m.add(parser.Root)
	if m.descents > 0 { // may be within a filter, which is searched for each element
		m.descents += filters
	}
	return m
}

// add counts what is in a part of the path, and returns how many filters are.
func (m *multiplier) add(list *jsonpath.ListNode) (filters int) {
	for _, node := range list.Nodes {
		switch node := node.(type) {
		case *jsonpath.ListNode:
			filters += m.add(node)
		case *jsonpath.RecursiveNode:
			m.descents++
		case *jsonpath.FilterNode:
			filters += 1 + m.add(node.Left) + m.add(node.Right)
		case *jsonpath.UnionNode:
			m.repeats *= float64(max(1, len(node.Nodes)))
			for _, part := range node.Nodes {
				filters += m.add(part)
			}
		}
	}
	return filters
}

// affordable reports whether a search in the object ends soon.
func (m multiplier) affordable(doc any) bool {
	if m.descents == 0 {
		return m.repeats <= maxSearch
	}
	if m.descents > maxDescents {
		return false
	}
	ways := m.waysBelow(doc)
	return ways[m.descents]*m.repeats <= maxSearch
}

// waysBelow returns, for each number of descents from none to one more than the
// path has, in how many ways they lead from a value to values below it, each
// counted with all that is below it: that much is copied.
func (m multiplier) waysBelow(value any) (ways [maxDescents + 1]float64) {
	add := func(child any) {
		for i, n := range m.waysBelow(child) {
			ways[i] += n
		}
	}
	switch value := value.(type) {
	case map[string]any:
		for _, child := range value {
			add(child)
		}
	case []any:
		for _, child := range value {
			add(child)
		}
	}
	ways[0]++
	for i := 1; i <= m.descents; i++ {
		ways[i] += ways[i-1]
	}
	return ways
}
