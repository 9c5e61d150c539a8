package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"sigs.k8s.io/yaml"
)

// clientSchema is a file of client-go that contains the merge schemas of all types. The schemas are derived
// from the OpenAPI document of kube-apiserver.
const clientSchema = "applyconfigurations/internal/internal.go"

// writeClientFields writes the field names of each type in the schemas of client-go.
func (c *command) writeClientFields(ctx context.Context, minor int) error {
	version := fmt.Sprintf("v0.%d.0", minor)
	fmt.Fprintf(c.progress, "reading k8s.io/client-go %s\n", version)
	m, err := openModule(ctx, c.env, "k8s.io/client-go", version)
	if err != nil {
		return err
	}
	defer m.close()
	fields, err := readClientFields(m.files)
	if err != nil {
		return fmt.Errorf("read k8s.io/client-go %s: %w", version, err)
	}
	encoded, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	if _, err := w.Write(encoded); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	name := filepath.Join(c.root, filepath.FromSlash(fmt.Sprintf(clientFieldsFile, minor)))
	return os.WriteFile(name, compressed.Bytes(), 0o644)
}

// readClientFields returns the names of the fields of each type.
func readClientFields(module fs.FS) (map[string][]string, error) {
	source, err := fs.ReadFile(module, clientSchema)
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), clientSchema, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	longest := "" // the longest string in the file contains the schemas
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && len(literal.Value) > len(longest) {
			longest = literal.Value
		}
		return true
	})
	text, err := strconv.Unquote(longest)
	if err != nil {
		return nil, errors.New("the file has no schema")
	}
	var schema struct {
		Types []struct {
			Name string
			Map  struct{ Fields []struct{ Name string } }
		}
	}
	if err := yaml.Unmarshal([]byte(text), &schema); err != nil {
		return nil, err
	}
	fields := map[string][]string{}
	for _, t := range schema.Types {
		for _, f := range t.Map.Fields {
			fields[t.Name] = append(fields[t.Name], f.Name)
		}
	}
	if len(fields) < 100 {
		return nil, fmt.Errorf("the schema has only %d types", len(fields))
	}
	return fields, nil
}
