// Package manifest reads admission configuration from files. The configuration is in effect from the start of
// the server and cannot be changed through the API. The plugins interpret the objects.
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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/codec"
)

// Suffix is the required suffix of the names of objects in manifest files. The names of objects that are
// created through the API must not end with it.
const Suffix = ".static.k8s.io"

// maxFile is the maximum size of a file, in bytes.
const maxFile = 16 << 20

// Dir is a directory of manifest files with objects of some kinds.
type Dir struct {
	Path string
	// Versions are the permitted kinds of objects, in their permitted versions.
	Versions []*codec.Version
	// Check validates an object. It must not modify the object except to set defaults.
	Check func(codec.Object) error
	// CheckAll validates all objects together; nil disables this validation.
	CheckAll func([]codec.Object) error
}

// Read returns the objects in the directory's .yaml, .yml and .json files, sorted by object name, and a hash of
// the files. The hash is "" if there are no files or if all of them are empty. Any error discards all objects,
// because a part of the configuration would admit requests that the rest rejects.
func (d *Dir) Read() (objects []codec.Object, hash string, err error) {
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return nil, "", fmt.Errorf("read the manifests: %w", err)
	}
	sum, from := sha256.New(), map[objectKey]string{}
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
			name := objectKey{object.GetObjectKind().GroupVersionKind().Kind, object.GetName()}
			if err := checkName(name.name, from[name]); err != nil {
				return nil, "", fmt.Errorf("read %s: %w", path, err)
			}
			from[name] = path
		}
		objects = append(objects, found...)
	}
	if d.CheckAll != nil {
		if err := d.CheckAll(objects); err != nil {
			return nil, "", fmt.Errorf("read the manifests in %s: %w", d.Path, err)
		}
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

// objectKey identifies an object by kind and name.
type objectKey struct{ kind, name string }

// checkName returns an error if the name is invalid, or if definedIn is not empty. definedIn is the file that
// already contains an object with this name.
func checkName(name, definedIn string) error {
	switch {
	case name == "":
		return errors.New("an object must have a name")
	case !strings.HasSuffix(name, Suffix):
		return fmt.Errorf("%q must have a name ending with %q", name, Suffix)
	case definedIn != "":
		return fmt.Errorf("duplicate name %q, which is in %s as well", name, definedIn)
	}
	return nil
}

// objects returns the objects of a file, which may contain several documents.
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
			continue // only comments
		}
		found, err := d.document(text)
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
}

// document returns the object in a YAML document, or the items if the document is a list.
func (d *Dir) document(text []byte) ([]codec.Object, error) {
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	if !d.isList(list.Kind) {
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

func (d *Dir) isList(kind string) bool {
	return kind == "List" || slices.ContainsFunc(d.Versions, func(v *codec.Version) bool { return v.ListKind().Kind == kind })
}

func (d *Dir) object(text []byte) (codec.Object, error) {
	version, err := d.version(text)
	if err != nil {
		return nil, err
	}
	object, err := version.Decode(text, codec.JSON, true)
	if err != nil {
		return nil, err
	}
	object.GetObjectKind().SetGroupVersionKind(version.GVK)
	if version.Default != nil {
		version.Default(object)
	}
	if err := d.Check(object); err != nil {
		return nil, fmt.Errorf("%q: %w", object.GetName(), err)
	}
	return object, nil
}

// version returns the permitted version that matches the type of the object in text.
func (d *Dir) version(text []byte) (*codec.Version, error) {
	var is metav1.TypeMeta
	if err := json.Unmarshal(text, &is); err != nil {
		return nil, err
	}
	var may []string
	for _, v := range d.Versions {
		if is.GroupVersionKind() == v.GVK {
			return v, nil
		}
		may = append(may, v.GVK.Kind)
	}
	return nil, fmt.Errorf("%s, Kind=%s is not allowed here: %s of %s", is.APIVersion, is.Kind, strings.Join(may, ", "), d.Versions[0].GVK.GroupVersion())
}
