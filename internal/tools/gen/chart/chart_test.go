package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestGeneratedFilesAreCurrent checks that the charts and the tables match the result files.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	outputs, err := generate("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range outputs {
		current, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(current, data) {
			t.Errorf("%s is out of date; update it with: go run ./internal/tools/gen/chart", name)
		}
	}
}

func TestParseResults(t *testing.T) {
	const header = "# title: T\n# measured: today\n"
	r, err := parseResults(header + "get\tµs\t1200.5\t60\tchart\nlist\tms\t10\t5\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := table(r); !strings.Contains(got, "| get | µs | 1,200.5 | 60 | ×0.05 |") {
		t.Errorf("the table is %q", got)
	}
	for name, text := range map[string]string{
		"no title":      "# measured: today\nget\tµs\t1\t1\n",
		"no rows":       header,
		"three columns": header + "get\tµs\t1\n",
		"no number":     header + "get\tµs\tone\t1\n",
		"zero":          header + "get\tµs\t0\t1\n",
		"unknown mark":  header + "get\tµs\t1\t1\tgraph\n",
	} {
		if _, err := parseResults(text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
