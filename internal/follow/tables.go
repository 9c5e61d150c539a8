package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
			row[4] = current[4] // the main repository declares dependencies, too
		}
	}
	return row
}

// updateGates writes the changes of published gates into the gate table. It keeps the rows of removed
// gates that the code uses.
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
	name := filepath.Join(root, filepath.FromSlash(gatesFile))
	table, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var updated strings.Builder
	for line := range strings.Lines(string(table)) {
		if strings.HasPrefix(line, "#") {
			updated.WriteString(line)
		}
	}
	for _, gate := range slices.Sorted(maps.Keys(rows)) {
		updated.WriteString(strings.Join(rows[gate], "\t") + "\n")
	}
	return os.WriteFile(name, []byte(updated.String()), 0o644)
}

// updateMinor sets the minor version of Kubernetes, and the compatible minor version before it.
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
	for constant, value := range map[string]int{"kubernetesMinor": minor, "compatibilityMinor": minor - 1} {
		pattern := regexp.MustCompile(`(\b` + constant + `\s*= )"[0-9]+"`)
		if !pattern.Match(source) {
			return fmt.Errorf("%s has no constant %s: correct updateMinor in internal/follow", versionFile, constant)
		}
		source = pattern.ReplaceAll(source, fmt.Appendf(nil, `${1}"%d"`, value))
	}
	return os.WriteFile(name, source, 0o644)
}
