package validation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/diff"
)

const (
	// maxComparedLines is the maximum number of lines for which kube-apiserver's diff algorithm is used. In
	// the worst case, the algorithm takes cubic time.
	maxComparedLines = 1000
	// maxQuotedLines is the maximum number of lines that are quoted from each value if the values are long.
	maxQuotedLines = 100
)

// Diff returns a unified diff of the JSON of two values, in the format of kube-apiserver. If the JSON is long,
// the diff has a single hunk that extends from the first to the last difference, but contains at most
// maxQuotedLines lines of each value.
func Diff(old, value any) string {
	before, err := prettyLines(old)
	if err != nil {
		return err.Error()
	}
	after, err := prettyLines(value)
	if err != nil {
		return err.Error()
	}
	if max(len(before), len(after)) <= maxComparedLines {
		return diff.Diff(old, value)
	}
	start := 0
	for start < min(len(before), len(after)) && bytes.Equal(before[start], after[start]) {
		start++
	}
	before, after = before[start:], after[start:]
	for len(before) > 0 && len(after) > 0 && bytes.Equal(before[len(before)-1], after[len(after)-1]) {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	var text strings.Builder
	fmt.Fprintf(&text, "@@ -%d,%d +%d,%d @@\n", start+1, len(before), start+1, len(after))
	quoteLines(&text, '-', before)
	quoteLines(&text, '+', after)
	return text.String()
}

// prettyLines returns the lines of a value's indented JSON.
func prettyLines(value any) ([][]byte, error) {
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		return nil, err
	}
	return bytes.Split(text, []byte("\n")), nil
}

func quoteLines(text *strings.Builder, mark byte, lines [][]byte) {
	for _, line := range lines[:min(len(lines), maxQuotedLines)] {
		text.WriteByte(mark)
		text.Write(line)
		text.WriteByte('\n')
	}
}
