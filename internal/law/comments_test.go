package law

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPackageComments: every package says what it is for, and its last line,
// "Imports: a, b.", names just the packages of ours that it imports.
func TestPackageComments(t *testing.T) {
	t.Parallel()
	for _, p := range ours(t) {
		s := parse(t, p)
		comment := s.comment()
		start := "Package " + p.Name + " "
		if p.Name == "main" {
			start = "Command "
		}
		if !strings.HasPrefix(comment, start) {
			t.Errorf("%s: its package comment does not start with %q", p.room(), start)
			continue
		}
		said, ok := importsLine(comment)
		if !ok {
			t.Errorf("%s: its package comment does not end with a line \"Imports: ....\"", p.room())
			continue
		}
		imports := p.Imports
		if inside(p.room(), "test") { // such a package is its tests
			imports = slices.Concat(imports, p.TestImports, p.XTestImports)
		}
		var real []string
		for _, path := range imports {
			if room := roomOf(path); room != "" && room != p.room() {
				real = append(real, room)
			}
		}
		slices.Sort(real)
		real = slices.Compact(real)
		if diff := cmp.Diff(said, real); diff != "" {
			t.Errorf("%s: the Imports line of its package comment is not what the code imports (-comment +code):\n%s", p.room(), diff)
		}
	}
}

// importsLine reads the last paragraph of a package comment.
func importsLine(comment string) ([]string, bool) {
	i := strings.LastIndex(comment, "\nImports: ")
	if i < 0 {
		return nil, false
	}
	line := strings.Join(strings.Fields(comment[i+len("\nImports: "):]), " ")
	line, ok := strings.CutSuffix(line, ".")
	if !ok || line == "nothing of ours" {
		return nil, ok
	}
	said := strings.Split(line, ", ")
	slices.Sort(said)
	return said, true
}

func TestImportsLine(t *testing.T) {
	t.Parallel()
	tests := []struct {
		comment string
		want    []string
		ok      bool
	}{
		{"Package a does.\n\nImports: nothing of ours.\n", nil, true},
		{"Package a does.\n\nImports: c, b.\n", []string{"b", "c"}, true},
		{"Package a does.\n\nImports: b,\nc.\n", []string{"b", "c"}, true},
		{"Package a does.\n\nImports: b\n", nil, false},
		{"Package a does.\n", nil, false},
	}
	for _, tt := range tests {
		got, ok := importsLine(tt.comment)
		if ok != tt.ok || ok && !slices.Equal(got, tt.want) {
			t.Errorf("importsLine(%q) = %v, %t; want %v, %t", tt.comment, got, ok, tt.want, tt.ok)
		}
	}
}
