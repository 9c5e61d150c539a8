package main

import (
	"maps"
	"slices"
)

// Values of change.Change.
const (
	added   = "new"
	removed = "removed"
	changed = "changed"
)

// change describes how a declaration differs between two releases.
type change struct {
	Category   category    `json:"category"`
	Change     string      `json:"change"`
	Name       string      `json:"name"`
	Path       string      `json:"path,omitempty"`
	Attributes []attribute `json:"attributes,omitempty"`
	// Members contains the names of the declarations inside a new or removed declaration. The report does not
	// list their changes separately.
	Members []string `json:"members,omitempty"`
	work

	declaration declaration // from the new release, or from the old one if it was removed
}

// attribute describes how a property of a declaration differs between two releases. Old is "" if the property
// is new. New is "" if the property was removed.
type attribute struct {
	Name string `json:"name"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

// diff returns the changes from one release to another, in the order of the report. It also returns the number
// of declarations whose doc comment or help text changed, keyed by textOwner.
func diff(before, after release) (changes []change, texts map[string]int) {
	all := maps.Clone(before)
	maps.Copy(all, after)
	texts = map[string]int{}
	members := map[key][]string{}
	for _, k := range all.sorted() {
		was, inBefore := before[k]
		is, inAfter := after[k]
		d := all[k]
		if inBefore != inAfter && d.Parent.Name != "" && isIn(before, d.Parent) != isIn(after, d.Parent) {
			members[d.Parent] = append(members[d.Parent], d.Name)
			continue
		}
		c := change{
			Category: k.Category, Name: k.Name, Path: d.Path, declaration: d,
			Change: changed, Attributes: diffAttributes(was.Attributes, is.Attributes),
		}
		switch {
		case !inBefore:
			c.Change = added
		case !inAfter:
			c.Change = removed
		case was.Doc != is.Doc:
			texts[textOwner(d)]++
		}
		if c.Change != changed || len(c.Attributes) > 0 {
			changes = append(changes, c)
		}
	}
	for i := range changes {
		changes[i].Members = members[key{changes[i].Category, changes[i].Name}]
	}
	return changes, texts
}

func isIn(r release, k key) bool {
	_, ok := r[k]
	return ok
}

// textOwner returns the name under which changes of a declaration's text are counted.
func textOwner(d declaration) string {
	switch {
	case d.Category == field:
		return d.Parent.Name
	case d.Package != "":
		return d.Name
	}
	return "help of each " + string(d.Category)
}

// diffAttributes returns the attributes that differ, sorted by name.
func diffAttributes(before, after map[string]string) []attribute {
	all := maps.Clone(before)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, after)
	var differing []attribute
	for _, name := range slices.Sorted(maps.Keys(all)) {
		was, inBefore := before[name]
		is, inAfter := after[name]
		if was != is || inBefore != inAfter {
			differing = append(differing, attribute{name, was, is})
		}
	}
	return differing
}
