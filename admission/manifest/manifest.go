// Package manifest reads the configuration of admission from files: objects that
// hold from the start of the server on, which nobody changes by its API. What the
// objects mean is up to the plugins.
//
// Imports: codec.
package manifest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/codec"
)

// Suffix ends the names of objects in files, and of no others.
const Suffix = ".static.k8s.io"

// maxFile bounds a file, in bytes.
const maxFile = 16 << 20

// Dir is a directory of files that hold objects of one version.
type Dir struct {
	Path    string
	Version *codec.Version
	// Check returns what is wrong with an object, which it may change no more than to
	// fill in its defaults.
	Check func(codec.Object) error
}

// Read returns the objects of the directory's .yaml, .yml and .json files, in the
// order of their names, and a hash of the files, "" for none. One fault means that
// there are none: half a configuration would let pass what the other half refuses.
func (d *Dir) Read() (objects []codec.Object, hash string, err error) {
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return nil, "", fmt.Errorf("read the manifests: %w", err)
	}
	sum, from := sha256.New(), map[string]string{}
	for _, entry := range entries {
		if entry.IsDir() || !isManifest(entry.Name()) {
			continue
		}
		path := filepath.Join(d.Path, entry.Name())
		content, err := readFile(path)
		if err != nil {
			return nil, "", err
		}
		if len(content) == 0 {
			continue
		}
		sum.Write(append(content, 0))
		hash = "some"
		found, err := d.objects(content)
		if err != nil {
			return nil, "", fmt.Errorf("read %s: %w", path, err)
		}
		for _, object := range found {
			if err := checkName(object.GetName(), from); err != nil {
				return nil, "", fmt.Errorf("read %s: %w", path, err)
			}
			from[object.GetName()] = path
		}
		objects = append(objects, found...)
	}
	slices.SortFunc(objects, func(a, b codec.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	if hash != "" {
		hash = fmt.Sprintf("sha256:%x", sum.Sum(nil))
	}
	return objects, hash, nil
}

func isManifest(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the manifests: %w", err)
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("read %s: it is larger than %d bytes", path, maxFile)
	}
	return content, nil
}

func checkName(name string, from map[string]string) error {
	switch {
	case name == "":
		return errors.New("an object must have a name")
	case !strings.HasSuffix(name, Suffix):
		return fmt.Errorf("%q must have a name ending with %q", name, Suffix)
	case from[name] != "":
		return fmt.Errorf("duplicate name %q, which is in %s as well", name, from[name])
	}
	return nil
}

// objects are those of a file, which may hold several documents.
func (d *Dir) objects(content []byte) ([]codec.Object, error) {
	var objects []codec.Object
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		text, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, err
		}
		if string(text) == "null" {
			continue // comments alone
		}
		found, err := d.document(text)
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
}

// document returns the object of a document, or those of a list.
func (d *Dir) document(text []byte) ([]codec.Object, error) {
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	if list.Kind != "List" && list.Kind != d.Version.ListKind().Kind {
		object, err := d.object(text)
		return []codec.Object{object}, err
	}
	objects := make([]codec.Object, len(list.Items))
	for i, item := range list.Items {
		var err error
		if objects[i], err = d.object(item); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

func (d *Dir) object(text []byte) (codec.Object, error) {
	object, err := d.Version.Decode(text, codec.JSON, true)
	if err != nil {
		return nil, err
	}
	if d.Version.Default != nil {
		d.Version.Default(object)
	}
	if err := d.Check(object); err != nil {
		return nil, fmt.Errorf("%q: %w", object.GetName(), err)
	}
	return object, nil
}
