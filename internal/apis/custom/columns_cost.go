package custom

import "k8s.io/client-go/util/jsonpath"

// maxSearch is the maximum number of values that the search of a column may visit. A path with several recursive
// descents reaches the same values in many ways, which can exhaust time and memory.
const maxSearch = 2_000_000

// maxDescents is the maximum number of recursive descents of a path.
const maxDescents = 8

// multiplier describes the elements of a path that can find more values than an object contains.
type multiplier struct {
	// descents is the number of recursive descents.
	descents int
	// repeats is the maximum number of times that unions select the same value.
	repeats float64
}

// multiplierOf returns the multiplier of a path.
func multiplierOf(path string) multiplier {
	m := multiplier{repeats: 1}
	parser, err := jsonpath.Parse("", path)
	if err != nil {
		return m // an invalid path is never searched
	}
	filters := m.add(parser.Root)
	if m.descents > 0 { // a descent may be in a filter, which is evaluated for each element
		m.descents += filters
	}
	return m
}

// add counts the nodes of a part of the path, and returns the number of filters.
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

// affordable reports whether a search in the object visits at most maxSearch values.
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

// waysBelow returns, for each number of recursive descents up to m.descents, in how many ways that many
// descents reach the given value or a value inside it. Each way is weighted by the size of the reached value,
// because a search copies that value.
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
