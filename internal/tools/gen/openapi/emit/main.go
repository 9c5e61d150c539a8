// Command emit writes the files that package openapi embeds. It generates them from the OpenAPI definitions of
// the built-in types. The command in the parent directory provides the definitions and runs this command.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
)

func main() {
	log.SetFlags(0)
	out := flag.String("out", "", "`directory` to write to")
	flag.Parse()
	if err := run(*out); err != nil {
		log.Fatalf("emit: %v", err)
	}
}

func run(out string) error {
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
		errs = append(errs, os.WriteFile(filepath.Join(out, name), data, 0o644))
	}
	return errors.Join(errs...)
}
