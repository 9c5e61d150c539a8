// Package manifests reads objects from files and applies them to a server, like kubectl apply --server-side. It
// applies definitions first and waits until their resources are served. It is for test fixtures: it does not
// prune, and does not wait for objects other than definitions.
package manifests

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Object is an object that was read from a manifest.
type Object struct {
	*unstructured.Unstructured
	// Source names the file of the object for error messages. It includes the number of the document in the
	// file, except for the first document.
	Source string
}

// Read returns the objects of files and directories. In a directory, it reads the files with the extensions
// .yaml, .yml and .json in the order of their names, and ignores subdirectories. It returns an error if a file
// is missing or invalid, or contains a document that is not an object.
func Read(paths ...string) ([]Object, error) {
	var objects []Object
	for _, path := range paths {
		files, err := listFiles(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			read, err := readFile(file)
			if err != nil {
				return nil, err
			}
			objects = append(objects, read...)
		}
	}
	return objects, nil
}

// ReadDefinitions is like Read, but returns only CustomResourceDefinitions. It returns an error for a path
// without a definition.
func ReadDefinitions(paths ...string) ([]Object, error) {
	var definitions []Object
	for _, path := range paths {
		objects, err := Read(path)
		if err != nil {
			return nil, err
		}
		objects = slices.DeleteFunc(objects, func(o Object) bool { return !o.isDefinition() })
		if len(objects) == 0 {
			return nil, fmt.Errorf("read %s: there is no CustomResourceDefinition", path)
		}
		definitions = append(definitions, objects...)
	}
	return definitions, nil
}

func (o Object) isDefinition() bool {
	gvk := o.GroupVersionKind()
	return gvk.Group == "apiextensions.k8s.io" && gvk.Kind == "CustomResourceDefinition"
}

// listFiles returns the files of a folder, or the path itself if it is a file.
func listFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	var files []string
	for _, entry := range entries {
		if ext := filepath.Ext(entry.Name()); !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, ext) {
			files = append(files, filepath.Join(path, entry.Name()))
		}
	}
	return files, nil
}

func readFile(file string) ([]Object, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	return Parse(data, file)
}

// Parse returns the objects of YAML or JSON documents. file is the name of their file, for Object.Source and error
// messages.
func Parse(data []byte, file string) ([]Object, error) {
	var objects []Object
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		source := file
		if n > 1 {
			source = fmt.Sprintf("%s, document %d", file, n)
		}
		if err == nil {
			objects, err = appendDocument(objects, document, source)
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", source, err)
		}
	}
}

// appendDocument appends the object of a YAML document, or all objects of a list. An empty document
// is ignored.
func appendDocument(objects []Object, document []byte, source string) ([]Object, error) {
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := utiljson.Unmarshal(text, &fields); err != nil { // does not round integers
		return nil, err
	}
	if len(fields) == 0 {
		return objects, nil
	}
	content := &unstructured.Unstructured{Object: fields}
	add := func(obj runtime.Object) error {
		o := Object{Unstructured: obj.(*unstructured.Unstructured), Source: source}
		objects = append(objects, o)
		return o.validate()
	}
	if content.IsList() && strings.HasSuffix(content.GetKind(), "List") {
		return objects, content.EachListItem(add)
	}
	return objects, add(content)
}

// validate returns an error unless o has an apiVersion, a kind, and a name or generateName.
func (o Object) validate() error {
	switch {
	case o.GetAPIVersion() == "":
		return errors.New("an object has no apiVersion")
	case o.GetKind() == "":
		return errors.New("an object has no kind")
	case o.GetName() == "" && o.GetGenerateName() == "":
		return fmt.Errorf("a %s has no name", o.GetKind())
	}
	return nil
}
