package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// gateRow returns the row of the gate table for a declared gate. It keeps the effect of the current
// row, which may be nil.
func gateRow(d declaration, current []string) []string {
	row := []string{d.Name, d.Attributes["default"], d.Attributes["stage"], "-", "-", "-"}
	if d.Attributes["locked"] != "" {
		row[3] = "locked"
	}
	if needs := d.Attributes["depends on"]; needs != "" {
		row[4] = needs
	}
	if current != nil {
		row[5] = current[5]
		if row[4] == "-" {
			row[4] = current[4] // dependencies can also be declared in the main repository, which is not read
		}
	}
	return row
}

// updateGates applies the changes of published gates to the gate table. It keeps the row of a removed gate if
// the code still uses the gate.
func (p *project) updateGates(root string, before, after release) error {
	rows := maps.Clone(p.gates)
	for _, k := range slices.Concat(before.sorted(), after.sorted()) {
		switch d, ok := after[k]; {
		case k.Category != gate, maps.Equal(before[k].Attributes, d.Attributes):
		case ok && d.Attributes["stage"] != "":
			rows[k.Name] = gateRow(d, rows[k.Name])
		case !ok && before[k].Attributes["stage"] != "" && len(p.mentions("internal", `\bfeature\.`+regexp.QuoteMeta(k.Name)+`\b`)) == 0:
			delete(rows, k.Name)
		}
	}
	if err := p.updateHistory(root, rows); err != nil {
		return err
	}
	var table []string
	for _, gate := range slices.Sorted(maps.Keys(rows)) {
		table = append(table, strings.Join(rows[gate], "\t")+"\n")
	}
	return rewriteTable(root, gatesFile, table)
}

// updateHistory updates the history table. If the new row of a gate has another state, it adds the current
// state as the state up to the previous minor version.
func (p *project) updateHistory(root string, rows map[string][]string) error {
	history, last := map[string][][]string{}, strconv.Itoa(p.minor-1)
	if err := eachRow(os.DirFS(root), historyFile, 5, func(row []string) { history[row[0]] = append(history[row[0]], row) }); err != nil {
		return err
	}
	var table []string
	for _, gate := range slices.Sorted(maps.Keys(rows)) {
		states, current := history[gate], []string{gate, last, "-", "-", "-"}
		if row := p.gates[gate]; row != nil {
			copy(current[2:], row[1:4])
		}
		isNew := !slices.Equal(current[2:], rows[gate][1:4])
		if isNew && (len(states) == 0 || states[len(states)-1][1] != last) {
			states = append(states, current)
		}
		for _, state := range states {
			table = append(table, strings.Join(state, "\t")+"\n")
		}
	}
	return rewriteTable(root, historyFile, table)
}

// rewriteTable replaces the rows of a table file and keeps the comments.
func rewriteTable(root, file string, rows []string) error {
	name := filepath.Join(root, filepath.FromSlash(file))
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var updated strings.Builder
	for line := range strings.Lines(string(old)) {
		if strings.HasPrefix(line, "#") {
			updated.WriteString(line)
		}
	}
	updated.WriteString(strings.Join(rows, ""))
	return os.WriteFile(name, []byte(updated.String()), 0o644)
}

// updateMinor sets the constant Newest to the minor version of version.
func updateMinor(root, version string) error {
	minor, err := minorOf(version)
	if err != nil {
		return err
	}
	name := filepath.Join(root, filepath.FromSlash(versionFile))
	source, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	pattern := regexp.MustCompile(`(\bNewest\s*= )[0-9]+`)
	if !pattern.Match(source) {
		return fmt.Errorf("%s has no constant Newest: correct updateMinor in internal/tools/follow", versionFile)
	}
	source = pattern.ReplaceAll(source, fmt.Appendf(nil, `${1}%d`, minor))
	return os.WriteFile(name, source, 0o644)
}
