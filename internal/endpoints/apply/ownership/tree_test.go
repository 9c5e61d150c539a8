package ownership

import (
	"slices"
	"syscall"
	"testing"
	"time"
)

// TestDeepSets checks that the CPU time of operations on sets grows linearly with the number of nodes, even
// if the sets differ only at the lowest level. It is not parallel, because it measures the CPU time of the
// process.
func TestDeepSets(t *testing.T) {
	// deep returns a set in which each level has 20 more fields.
	deep := func(levels int, leaf mark) []node {
		var below []node
		for range levels {
			list := []node{}
			for c := 'a'; c < 'u'; c++ {
				list = append(list, node{string(c), 0, []node{{string(c) + "x", member, nil}}})
			}
			if below == nil {
				list = append(list, node{"z", leaf, nil})
			} else {
				list = append(list, node{"z", 0, below})
			}
			below = list
		}
		return below
	}
	other := func(list []node) []node { // renames the fields at the lowest levels, except the last one
		var rename func(list []node) []node
		rename = func(list []node) []node {
			list = slices.Clone(list)
			for i := range list {
				if list[i].children = rename(list[i].children); len(list[i].element) == 2 {
					list[i].element = list[i].element[:1] + "y"
				}
			}
			return list
		}
		return rename(list)
	}
	for name, operate := range map[string]func(b *builder, set, changes []node){
		"subtract": func(b *builder, set, changes []node) { b.subtract(set, changes) },
		"members":  func(b *builder, _, changes []node) { b.members(changes) },
	} {
		cost := func(levels int) time.Duration {
			set, changes := deep(levels, member), other(deep(levels, removed))
			least := time.Hour
			for range 5 {
				began := processCPU(t)
				operate(&builder{}, set, changes)
				least = min(least, processCPU(t)-began)
			}
			return least
		}
		small, large := cost(500), cost(4000)
		if large > 20*small+100*time.Millisecond {
			t.Errorf("%s: 500 levels take %v of CPU, eight times as many %v", name, small, large)
		}
	}
}

// processCPU returns the CPU time that the process has used.
func processCPU(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Skip(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
