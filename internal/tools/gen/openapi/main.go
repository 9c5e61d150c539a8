// Command openapi writes the files that package openapi embeds. They contain the OpenAPI definitions of the
// built-in types and the merge schemas that are derived from them. The command is a separate module, so that
// the server does not depend on the generators.
//
// First, the command runs openapi-gen, which generates a Go file with the definitions. Then it adds this file
// to package definitions with a build overlay and runs the command in ./emit, which writes the embedded files.
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

// generate runs openapi-gen for packages and returns the path of the generated file.
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

// writeOverlay writes a file for the -overlay flag of the go command and returns its path. The overlay replaces
// definitions/definitions.go with the generated file.
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
