package strategic

import (
	"fmt"
	"sort"

	"k8s.io/apimachinery/pkg/util/mergepatch"
)

// arrange sorts a merged list. Elements that desired contains are in the order of desired, and the other
// elements are in the order of before. arrange interleaves the two according to before.
func (l list) arrange(merged, desired, before []any, objects bool) ([]any, error) {
	named, others, err := l.partition(merged, desired)
	if err != nil {
		return nil, err
	}
	named, err = l.sort(named, desired, objects)
	if err != nil {
		return nil, err
	}
	others, err = l.sort(others, before, objects)
	if err != nil {
		return nil, err
	}
	return l.interleave(others, named, before, objects), nil
}

// partition splits elements into those that by contains (named) and the others, comparing them by merge
// key.
func (l list) partition(elements, by []any) (named, others []any, err error) {
	named, others = make([]any, 0, len(elements)), make([]any, 0, len(elements))
	if l.mergeKey == "" {
		in := make(map[any]bool, len(by))
		for _, element := range by {
			in[element] = true
		}
		for _, element := range elements {
			if in[element] {
				named = append(named, element)
			} else {
				others = append(others, element)
			}
		}
		return named, others, nil
	}
	keyPositions := keyPositionsOf(by, l.mergeKey)
	for _, element := range elements {
		key, err := l.keyOf(element)
		if err != nil {
			return nil, nil, err
		}
		i, found := keyPositions.first[key]
		if keyPositions.nonObject >= 0 && (!found || i > keyPositions.nonObject) {
			return nil, nil, fmt.Errorf("value for key %v is not a map", keyPositions.nonObject)
		}
		if found {
			named = append(named, element)
		} else {
			others = append(others, element)
		}
	}
	return named, others, nil
}

// keyPositions contains the first position of each merge key in a list.
type keyPositions struct {
	first map[any]int
	// nonObject is the position of the first element that is not an object, or -1.
	nonObject int
}

func keyPositionsOf(elements []any, mergeKey string) keyPositions {
	p := keyPositions{make(map[any]int, len(elements)), -1}
	for i, element := range elements {
		object, ok := element.(map[string]any)
		if !ok {
			if p.nonObject < 0 {
				p.nonObject = i
			}
			continue
		}
		if key, ok := object[mergeKey]; ok {
			if _, there := p.first[key]; !there {
				p.first[key] = i
			}
		}
	}
	return p
}

// positioned is an element and its position in an order, or -1 if the order does not contain it.
type positioned struct {
	place int
	value any
}

// place returns the elements together with their positions in order.
func (l list) place(elements, order []any, objects bool) []positioned {
	first := make(map[any]int, len(order))
	for i, element := range order {
		key := l.sortKey(element, objects)
		if _, there := first[key]; !there {
			first[key] = i
		}
	}
	out := make([]positioned, len(elements))
	for i, element := range elements {
		place, ok := first[l.sortKey(element, objects)]
		if !ok {
			place = -1
		}
		out[i] = positioned{place, element}
	}
	return out
}

func (l list) sortKey(element any, objects bool) any {
	if !objects {
		return element
	}
	object, _ := element.(map[string]any)
	return object[l.mergeKey] // nil if the object has no key
}

// sort sorts elements by their positions in order. If order lacks some elements, the comparison is
// not a valid ordering, and the result depends on sort.SliceStable. strategicpatch uses the same
// function, so that the results are equal.
func (l list) sort(elements, order []any, objects bool) ([]any, error) {
	var deletions []any
	if objects {
		for _, elements := range [][]any{elements, order} {
			for _, element := range elements {
				if err := l.checkKey(element); err != nil {
					return nil, err
				}
			}
		}
		var err error
		if elements, deletions, err = splitDeletions(elements); err != nil {
			return nil, err
		}
	}
	sorted := l.place(elements, order, objects)
	sort.SliceStable(sorted, func(i, j int) bool {
		if sorted[i].place >= 0 && sorted[j].place >= 0 {
			return sorted[i].place < sorted[j].place
		}
		return true
	})
	out := make([]any, 0, len(elements)+len(deletions))
	for _, p := range sorted {
		out = append(out, p.value)
	}
	return append(out, deletions...), nil
}

func (l list) checkKey(element any) error {
	_, err := l.keyOf(element)
	return err
}

// splitDeletions separates the elements with a delete directive.
func splitDeletions(elements []any) (others, deletions []any, err error) {
	for _, element := range elements {
		object, ok := element.(map[string]any)
		if !ok {
			return nil, nil, mergepatch.ErrBadArgType(object, element)
		}
		if object[directive] == strategyDelete {
			deletions = append(deletions, element)
		} else {
			others = append(others, element)
		}
	}
	return others, deletions, nil
}

// interleave merges two sorted lists. An element of left precedes an element of right only if order
// contains both, and contains the element of left first.
func (l list) interleave(left, right, order []any, objects bool) []any {
	a, b := l.place(left, order, objects), l.place(right, order, objects)
	out := make([]any, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0].place >= 0 && b[0].place >= 0 && a[0].place < b[0].place {
			out, a = append(out, a[0].value), a[1:]
		} else {
			out, b = append(out, b[0].value), b[1:]
		}
	}
	for _, p := range append(a, b...) {
		out = append(out, p.value)
	}
	return out
}

// without returns the elements that deleted does not contain.
func without(elements, deleted []any) []any {
	doomed := make(map[any]bool, len(deleted))
	for _, element := range deleted {
		doomed[element] = true
	}
	kept := make([]any, 0, len(elements))
	for _, element := range elements {
		if !doomed[element] {
			kept = append(kept, element)
		}
	}
	return kept
}

// unique removes all but the first of equal elements, in place. Like strategicpatch, it replaces
// each removed element with the current last element.
func unique(elements []any) []any {
	keyPositions := make(map[any][]int, len(elements))
	for i, element := range elements {
		keyPositions[element] = append(keyPositions[element], i)
	}
	if len(keyPositions) == len(elements) {
		return elements
	}
	n := len(elements)
	for i := 0; i < n; i++ {
		value := elements[i]
		all := keyPositions[value]
		if len(all) < 2 {
			continue
		}
		sort.Ints(all) // elements moved from the end are not in order
		for _, at := range all {
			if at <= i || at >= n || elements[at] != value {
				continue
			}
			for at < n && elements[at] == value {
				n--
				if moved := elements[n]; moved != value {
					elements[at] = moved
					keyPositions[moved] = append(keyPositions[moved], at)
				}
			}
		}
	}
	return elements[:n]
}
