package upstream

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAllSuitesAreKnown checks that every suite that upstream exports either runs here, or is listed in the
// document with the reason why it does not.
func TestAllSuitesAreKnown(t *testing.T) {
	t.Parallel()
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "k8s.io/apiserver/pkg/storage/testing").Output()
	if err != nil {
		t.Fatal(err)
	}
	read := func(pattern string) string {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no files %s: %v", pattern, err)
		}
		var all strings.Builder
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(data)
		}
		return all.String()
	}
	theirs := read(filepath.Join(strings.TrimSpace(string(dir)), "*_tests.go"))
	ours := read("suites_test.go") + read(leftOutTable)
	for _, match := range regexp.MustCompile(`(?m)^func (Run\w+)\(`).FindAllStringSubmatch(theirs, -1) {
		if !regexp.MustCompile(`\b` + match[1] + `\b`).MatchString(ours) {
			t.Errorf("the suite %s neither runs nor is listed in %s", match[1], leftOutTable)
		}
	}
}
