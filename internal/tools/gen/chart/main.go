// Command chart writes the charts and tables of docs/internals/benchmarks.md from the result files in
// docs/internals/data.
//
// usage: go run ./internal/tools/gen/chart [-root DIR]
//
// For each file NAME.tsv, it writes NAME.svg in the same directory, and a table between the markers "begin
// NAME" and "end NAME" in the page. See results.go for the format of the files.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	root := flag.String("root", ".", "root directory of the repository")
	flag.Parse()
	outputs, err := generate(*root)
	if err == nil {
		err = write(outputs)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "chart: %v\n", err)
		os.Exit(1)
	}
}

// Paths of the input files and of the page with the tables, relative to the root.
const (
	dataDir  = "docs/internals/data"
	pagePath = "docs/internals/benchmarks.md"
)

// generate returns the contents of all generated files by path.
func generate(root string) (map[string][]byte, error) {
	names, err := filepath.Glob(filepath.Join(root, dataDir, "*.tsv"))
	if err != nil {
		return nil, err
	}
	outputs := map[string][]byte{}
	pageName := filepath.Join(root, pagePath)
	page, err := os.ReadFile(pageName)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		r, err := parseResults(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		base := strings.TrimSuffix(name, ".tsv")
		outputs[base+".svg"] = svg(r)
		if page, err = replaceTable(page, filepath.Base(base), table(r)); err != nil {
			return nil, fmt.Errorf("%s: %w", pageName, err)
		}
	}
	outputs[pageName] = page
	return outputs, nil
}

func write(outputs map[string][]byte) error {
	for name, data := range outputs {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
