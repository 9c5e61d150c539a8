package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/apis/history"
)

// diffContext is the number of unchanged lines around a change.
const diffContext = 3

// differ prints the differences between two states of an object.
type differ struct {
	out   io.Writer
	color bool
	// all includes the fields that change with every write.
	all bool
}

// newDiffer returns a differ. It prints colors if out is a terminal and $NO_COLOR is not set.
func newDiffer(out io.Writer, all bool) *differ {
	file, ok := out.(*os.File)
	color := ok && os.Getenv("NO_COLOR") == "" && term.IsTerminal(int(file.Fd()))
	return &differ{out: out, color: color, all: all}
}

// print prints the difference between two states and reports whether there is a difference. A nil state means
// that the object does not exist.
func (d *differ) print(name string, before, after map[string]any) (bool, error) {
	a, err := d.text(before)
	if err != nil {
		return false, err
	}
	b, err := d.text(after)
	if err != nil || a == b {
		return false, err
	}
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: splitLines(a), B: splitLines(b), FromFile: "a/" + name, ToFile: "b/" + name, Context: diffContext,
	})
	if err != nil {
		return false, fmt.Errorf("compare %s: %w", name, err)
	}
	for line := range strings.Lines(text) {
		if _, err := io.WriteString(d.out, d.colored(line)); err != nil {
			return true, err
		}
	}
	return true, nil
}

// splitLines splits a text into lines. The text must be empty or end with a newline.
func splitLines(text string) []string { return slices.Collect(strings.Lines(text)) }

// colored returns a line of a diff with color codes if colors are enabled.
func (d *differ) colored(line string) string {
	if !d.color {
		return line
	}
	code := ""
	switch {
	case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"):
		code = "1"
	case strings.HasPrefix(line, "-"):
		code = "31"
	case strings.HasPrefix(line, "+"):
		code = "32"
	case strings.HasPrefix(line, "@@"):
		code = "36"
	default:
		return line
	}
	return "\x1b[" + code + "m" + strings.TrimSuffix(line, "\n") + "\x1b[0m\n"
}

// text formats an object as YAML. Unless d.all is set, it omits the fields that change with every write.
func (d *differ) text(object map[string]any) (string, error) {
	if object == nil {
		return "", nil
	}
	if !d.all {
		object = history.WithoutNoise(object)
	}
	text, err := yaml.Marshal(object)
	return string(text), err
}
