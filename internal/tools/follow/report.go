package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// report describes the changes between two versions of Kubernetes and the work that they require in this
// project.
type report struct {
	From    string   `json:"from"`
	To      string   `json:"to"`
	Changes []change `json:"changes"`
	// Texts contains the number of changed doc comments and help texts, by type or category.
	Texts map[string]int `json:"texts"`
	// Notes lists what this report does not contain.
	Notes []string `json:"notes"`
}

// writeJSON writes the report as JSON.
func (r *report) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// writeText writes the report as text, with a section for each category and a summary of the files to edit.
func (r *report) writeText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Kubernetes modules %s -> %s\n", r.From, r.To)
	for _, c := range categories() {
		r.section(&b, c)
	}
	if len(r.Texts) > 0 {
		b.WriteString("\nChanged doc comments\n")
		for _, name := range slices.Sorted(maps.Keys(r.Texts)) {
			fmt.Fprintf(&b, "  %4d %s\n", r.Texts[name], name)
		}
	}
	r.summary(&b)
	b.WriteString("\nNot in this report\n")
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "  - %s\n", note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *report) section(b *strings.Builder, wanted category) {
	first := true
	for _, c := range r.Changes {
		if c.Category != wanted {
			continue
		}
		if first {
			first = false
			fmt.Fprintf(b, "\n%ss\n", strings.ToUpper(string(wanted[:1]))+string(wanted[1:]))
		}
		c.write(b)
	}
}

func (c change) write(b *strings.Builder) {
	fmt.Fprintf(b, "  [%s] %s %s", c.State, c.Change, c.Name)
	if c.Path != "" {
		fmt.Fprintf(b, " (%s)", c.Path)
	}
	b.WriteByte('\n')
	for _, a := range c.Attributes {
		fmt.Fprintf(b, "      %s\n", a.describe(c.Change))
	}
	if len(c.Members) > 0 {
		fmt.Fprintf(b, "      with %s\n", strings.Join(shorten(c.Name, c.Members), ", "))
	}
	if len(c.Files) > 0 {
		fmt.Fprintf(b, "      -> %s\n", strings.Join(c.Files, " "))
	}
	if c.Note != "" {
		fmt.Fprintf(b, "      note: %s\n", c.Note)
	}
}

// describe formats the attribute. change is the kind of change of the declaration.
func (a attribute) describe(change string) string {
	switch {
	case change == added:
		return strings.TrimSpace(a.Name + " " + a.New)
	case change == removed:
		return strings.TrimSpace(a.Name + " " + a.Old)
	}
	return fmt.Sprintf("%s: %s -> %s", a.Name, cmp.Or(a.Old, "none"), cmp.Or(a.New, "none"))
}

// shorten removes the name of the parent from the names of its members.
func shorten(parent string, members []string) []string {
	short := slices.Clone(members)
	for i, name := range short {
		short[i] = strings.TrimPrefix(name, parent+".")
	}
	return short
}

// summary writes the number of changes by state, and the files to edit.
func (r *report) summary(b *strings.Builder) {
	states, files := map[string]int{}, map[string]int{}
	for _, c := range r.Changes {
		states[c.State]++
		if c.State != edit {
			continue
		}
		for _, name := range c.Files {
			files[name]++
		}
	}
	fmt.Fprintf(b, "\nSummary: %d changes: %d to edit, %d to check, %d that -update makes, %d done\n",
		len(r.Changes), states[edit], states[check], states[generated], states[done])
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(b, "  %4d %s\n", files[name], name)
	}
}
