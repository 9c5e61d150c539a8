// Command openapi writes the files that package openapi embeds: the OpenAPI definitions of the
// built-in types, and the merge schemas derived from them. It is a separate module, so that the
// generators are not dependencies of the product.
//
// First, it runs openapi-gen, which generates a Go file with the definitions. Then it runs the
// command in ./emit, with this file added to package definitions. That command writes the files.
//
// Run it with "go generate ./internal/endpoints/openapi".
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/gengo/v2"
	"k8s.io/gengo/v2/generator"
	"k8s.io/klog/v2"
	"k8s.io/kube-openapi/cmd/openapi-gen/args"
	"k8s.io/kube-openapi/pkg/generators"
)

func main() {
	log.SetFlags(0)
	out := flag.String("out", filepath.Join("..", "..", "..", "endpoints", "openapi", "data"), "`directory` of the embedded files")
	flag.Parse()
	if err := run(*out); err != nil {
		log.Fatalf("openapi: %v", err)
	}
}

func run(out string) error {
	dir, err := os.MkdirTemp("", "mainstay-openapi-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	generated, err := generate(dir)
	if err != nil {
		return fmt.Errorf("generate definitions: %w", err)
	}
	overlay, err := writeOverlay(dir, generated)
	if err != nil {
		return fmt.Errorf("write overlay: %w", err)
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	cmd := exec.Command("go", "run", "-overlay", overlay, "./emit", "-out", out)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// generate runs openapi-gen over the packages and returns the file it wrote.
func generate(dir string) (string, error) {
	// Discard the log of the API linter, which reports all known violations of the naming rules.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	a := args.New()
	a.OutputDir, a.OutputPkg, a.OutputFile = dir, "definitions", "definitions.go"
	a.ReportFilename = filepath.Join(dir, "violations.txt")
	targets := func(c *generator.Context) []generator.Target {
		return generators.GetOpenAPITargets(c, a, nil)
	}
	err := gengo.Execute(generators.NameSystems(), generators.DefaultNameSystem(), targets, gengo.StdBuildTag, packages)
	return filepath.Join(dir, a.OutputFile), err
}

// writeOverlay writes a file for the option -overlay of the go command, which replaces
// definitions/definitions.go with the generated file. It returns the path of the overlay.
func writeOverlay(dir, generated string) (string, error) {
	replaced, err := filepath.Abs(filepath.Join("definitions", "definitions.go"))
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]map[string]string{"Replace": {replaced: generated}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, data, 0o600)
}
