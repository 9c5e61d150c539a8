package conformance

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// Format is an encoding of objects.
type Format struct {
	Name       string // the extension of fixture files
	MediaType  string
	Serializer runtime.Serializer
}

// Formats returns all encodings of the API.
func Formats() []Format {
	return []Format{
		{"json", "application/json", json.NewSerializerWithOptions(json.DefaultMetaFactory, kinds, kinds, json.SerializerOptions{})},
		{"yaml", "application/yaml", json.NewSerializerWithOptions(json.DefaultMetaFactory, kinds, kinds, json.SerializerOptions{Yaml: true})},
		{"pb", "application/vnd.kubernetes.protobuf", protobuf.NewSerializer(kinds, kinds)},
	}
}

// Decode decodes an object in this format.
func (f Format) Decode(data []byte) (runtime.Object, error) {
	object, _, err := f.Serializer.Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name, err)
	}
	return object, nil
}

// Encode encodes an object in this format. The kind of the object must be set.
func (f Format) Encode(object runtime.Object) ([]byte, error) {
	var buffer bytes.Buffer
	if err := f.Serializer.Encode(object, &buffer); err != nil {
		return nil, fmt.Errorf("write %s: %w", f.Name, err)
	}
	return buffer.Bytes(), nil
}

// FixturesDir returns the directory of the module k8s.io/api that contains an object of every kind in every
// encoding. All fields of these objects are set.
func FixturesDir() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		return "", fmt.Errorf("find the module k8s.io/api: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "testdata", "HEAD"), nil
}

// ReadFixture reads the object of a kind in one format. dir is the result of FixturesDir. If dir has no object
// of the kind, the error wraps fs.ErrNotExist.
func ReadFixture(dir string, fact Fact, format Format) (runtime.Object, error) {
	group, version, grouped := strings.Cut(fact.GroupVersion, "/")
	if !grouped {
		group, version = "core", group
	}
	data, err := os.ReadFile(filepath.Join(dir, group+"."+version+"."+fact.Kind+"."+format.Name))
	if err != nil {
		return nil, err
	}
	return format.Decode(data)
}

// MakeOwn sets the name of a fixture and removes metadata that clients do not send on creation.
func MakeOwn(object runtime.Object, namespace, name string) error {
	m, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	m.SetName(name)
	m.SetNamespace(namespace)
	m.SetGenerateName("")
	m.SetUID("")
	m.SetResourceVersion("")
	m.SetGeneration(0)
	m.SetSelfLink("")
	m.SetCreationTimestamp(metav1.Time{})
	m.SetDeletionTimestamp(nil)
	m.SetDeletionGracePeriodSeconds(nil)
	m.SetOwnerReferences(nil)
	m.SetFinalizers(nil)
	m.SetManagedFields(nil)
	return nil
}
