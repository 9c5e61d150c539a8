// Command emit writes the files that package openapi embeds from the OpenAPI definitions of the
// built-in types. The command in the parent directory provides the definitions and runs it.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
)

func main() {
	log.SetFlags(0)
	out := flag.String("out", "", "`directory` to write to")
	check := flag.Bool("check", false, "write no files; fail if a file is not current")
	flag.Parse()
	if err := run(*out, *check); err != nil {
		log.Fatalf("emit: %v", err)
	}
}

func run(out string, check bool) error {
	models, err := buildModels()
	if err != nil {
		return err
	}
	merge, err := encodeMerge(models)
	if err != nil {
		return fmt.Errorf("encode merge schemas: %w", err)
	}
	library, err := encodeLibrary(models)
	if err != nil {
		return fmt.Errorf("encode models: %w", err)
	}
	options, err := encodeOptions()
	if err != nil {
		return fmt.Errorf("encode options: %w", err)
	}
	files := map[string][]byte{
		"merge.bin":    merge,
		"models.bin":   library,
		"options.json": options,
	}
	var errs []error
	for name, data := range files {
		path := filepath.Join(out, name)
		if check {
			errs = append(errs, compare(path, data))
		} else {
			errs = append(errs, os.WriteFile(path, data, 0o644))
		}
	}
	return errors.Join(errs...)
}

// compare returns an error if the content of the file differs from data.
func compare(path string, data []byte) error {
	have, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !bytes.Equal(have, data) {
		return fmt.Errorf("%s is not current: run go generate ./openapi", path)
	}
	return nil
}
