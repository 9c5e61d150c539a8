// Package tsv parses embedded tables with tab-separated columns.
package tsv

import (
	"iter"
	"strings"
)

// Rows returns the columns of each row of a table. Lines that begin with "#" are comments.
func Rows(table string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for line := range strings.Lines(table) {
			if !strings.HasPrefix(line, "#") && !yield(strings.Split(strings.TrimSuffix(line, "\n"), "\t")) {
				return
			}
		}
	}
}
