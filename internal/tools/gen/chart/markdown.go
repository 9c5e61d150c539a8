package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// table formats results as a Markdown table.
func table(r results) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s.\n\n| operation | unit | peer | Mainstay | ratio |\n|---|---|--:|--:|--:|\n", r.measured)
	for _, row := range r.rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | ×%.2f |\n", row.name, row.unit, number(row.peer), number(row.mainstay), row.ratio())
	}
	return b.String()
}

// number formats a value with separators between thousands.
func number(v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		return whole + "." + fraction
	}
	return whole
}

// replaceTable replaces the text between the markers for the result file name. It returns an error if a marker
// is missing.
func replaceTable(page []byte, name, table string) ([]byte, error) {
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->"
	before, rest, ok := bytes.Cut(page, []byte(begin))
	if !ok {
		return nil, fmt.Errorf("no marker %q", strings.TrimSpace(begin))
	}
	_, after, ok := bytes.Cut(rest, []byte(end))
	if !ok {
		return nil, fmt.Errorf("no marker %q", end)
	}
	return bytes.Join([][]byte{before, []byte(begin), []byte(table), []byte(end), after}, nil), nil
}
