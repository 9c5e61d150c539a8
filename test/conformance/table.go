package conformance

import (
	"maps"
	"regexp"
	"slices"
)

// ageColumns lists the table columns that contain ages.
var ageColumns = []string{"Age", "Last Seen", "First Seen", "Duration", "Last Schedule", "Restarts", "TimeAdded"}

// age matches an age as a separate word, because "3d" may also be part of a uid.
var age = regexp.MustCompile(`(^|[\s(])(?:\d+[smhdy])+($|[\s)])`)

// withoutAges returns a copy of a table in which all ages are replaced with a constant. It does not modify its
// argument.
func withoutAges(table map[string]any) map[string]any {
	columns, _ := table["columnDefinitions"].([]any)
	rows, _ := table["rows"].([]any)
	table = maps.Clone(table)
	agedRows := slices.Clone(rows)
	for i := range agedRows {
		agedRows[i] = rowWithoutAges(columns, agedRows[i])
	}
	if rows != nil {
		table["rows"] = agedRows
	}
	return table
}

func rowWithoutAges(columns []any, row any) any {
	r, ok := row.(map[string]any)
	if !ok {
		return row
	}
	cells, _ := r["cells"].([]any)
	cells = slices.Clone(cells)
	for i := range cells {
		text, isText := cells[i].(string)
		if isText && containsAge(columns, i) {
			cells[i] = age.ReplaceAllString(text, "${1}AGE${2}")
		}
	}
	r = maps.Clone(r)
	r["cells"] = cells
	return r
}

// containsAge reports whether the i-th cell contains an age. Only the first event of a watch describes the
// columns, and some kinds have more cells than columns. In these cases, containsAge returns true, and the
// format of the cell decides.
func containsAge(columns []any, i int) bool {
	if i >= len(columns) {
		return true
	}
	c, _ := columns[i].(map[string]any)
	name, _ := c["name"].(string)
	kind, _ := c["type"].(string) // a definition's own columns may be dates under any name
	return kind == "date" || slices.Contains(ageColumns, name)
}
