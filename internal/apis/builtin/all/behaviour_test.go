package all_test

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/all"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// server contains all resources, with in-memory storage, and a recorded object of each resource.
type server struct {
	resources map[string]*rest.Resource
	samples   map[string]json.RawMessage
}

func serve(t *testing.T) *server {
	t.Helper()
	backend := storagetest.InMemory(t)
	env := &builtin.Env{Gates: feature.Defaults(), Storage: builtin.StorageEnv{Open: storagetest.Opener(backend)}}
	s := &server{resources: map[string]*rest.Resource{}, samples: map[string]json.RawMessage{}}
	resources, err := builtin.Build(env, all.Groups())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources {
		s.resources[r.GroupVersion.String()+" "+r.FullName()] = r
	}
	for _, line := range recorded[struct {
		GV, Resource string
		Object       json.RawMessage
	}](t, "cells.jsonl.gz") {
		s.samples[line.GV+" "+line.Resource] = line.Object
	}
	return s
}

// sample returns the recorded object of a resource, in the hub version and with the fields that a client would
// send to create it.
func (s *server) sample(t *testing.T, name string) codec.Object {
	t.Helper()
	r := s.resources[name]
	obj := r.Version.New()
	if err := json.Unmarshal(s.samples[name], obj); err != nil {
		t.Fatalf("decode the sample of %s: %v", name, err)
	}
	hub, err := r.Version.ConvertToHub(obj)
	if err != nil {
		t.Fatal(err)
	}
	if job, ok := hub.(*batchv1.Job); ok { // these fields contain the UID from the recorded server
		job.Spec.Selector, job.Spec.Template.Labels = nil, nil
	}
	if definition, ok := hub.(*apiextensionsv1.CustomResourceDefinition); ok {
		for _, v := range definition.Spec.Versions {
			dropRules(v.Schema.OpenAPIV3Schema)
		}
	}
	return hub
}

// dropRules removes CEL validation rules, because the server might not support all recorded rules.
func dropRules(schema *apiextensionsv1.JSONSchemaProps) {
	schema.XValidations = nil
	for name, property := range schema.Properties {
		dropRules(&property)
		schema.Properties[name] = property
	}
}

func (s *server) create(t *testing.T, name string) codec.Object {
	t.Helper()
	record, err := s.resources[name].Storage.(rest.Creater).Create(t.Context(), s.sample(t, name), nil, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create %s: %v", name, err)
	}
	return object(t, record)
}

func object(t *testing.T, record *codec.Record) codec.Object {
	t.Helper()
	obj, err := record.Object()
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// put updates an object through a resource or subresource.
func (s *server) put(t *testing.T, name string, obj codec.Object) (codec.Object, error) {
	t.Helper()
	key := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	record, _, err := s.resources[name].Storage.(rest.Updater).Update(t.Context(), key,
		func(context.Context, codec.Object) (codec.Object, error) {
			return obj.DeepCopyObject().(codec.Object), nil
		}, rest.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return object(t, record), nil
}

// TestRules compares the results of writes with those recorded from kube-apiserver.
func TestRules(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, row := range table(t, "rules.tsv") {
		name := row[0] + " " + row[1]
		generation, put, withoutVersion, deleted, status := row[2], row[3], row[4], row[5], row[6]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			missing := s.sample(t, name)
			missing.SetName(missing.GetName() + "-missing")
			_, err := s.put(t, name, missing)
			if got := apierrors.IsNotFound(err); got != (put == "404") || !got && err != nil {
				t.Errorf("put of a missing object: %v, want %s", err, put)
			}
			obj := s.create(t, name)
			if got := strconv.FormatInt(obj.GetGeneration(), 10); got != generation {
				t.Errorf("generation is %s, want %s", got, generation)
			}
			obj.SetResourceVersion("")
			_, err = s.put(t, name, obj)
			if got := apierrors.IsInvalid(err); got != (withoutVersion == "422") || !got && err != nil {
				t.Errorf("put without resourceVersion: %v, want %s", err, withoutVersion)
			}
			if got := s.resources[name].ReturnDeleted; got != (deleted == "object") {
				t.Errorf("a deletion returns the object: %t, want a response of type %s", got, deleted)
			}
			if status != "-" {
				s.checkStatus(t, name, status)
			}
		})
	}
}

// checkStatus checks which parts of metadata a write to /status can change.
func (s *server) checkStatus(t *testing.T, name, want string) {
	t.Helper()
	key := s.sample(t, name)
	record, err := s.resources[name].Storage.(rest.Getter).Get(t.Context(),
		types.NamespacedName{Namespace: key.GetNamespace(), Name: key.GetName()}, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	obj := object(t, record)
	obj.SetLabels(map[string]string{"via": "status"})
	obj.SetAnnotations(map[string]string{"via": "status"})
	updated, err := s.put(t, name+"/status", obj)
	if err != nil {
		t.Fatalf("put to /status: %v", err)
	}
	got := ""
	if updated.GetLabels()["via"] != "" {
		got += "labels"
	}
	if updated.GetAnnotations()["via"] != "" {
		got += "annotations"
	}
	if got == "" {
		got = "nothing"
	}
	if got != want {
		t.Errorf("a write to /status changes %s, want %s", got, want)
	}
	if updated.GetGeneration() != obj.GetGeneration() {
		t.Error("a write to /status incremented the generation")
	}
}

// TestFieldLabels compares the supported field selectors, and the errors for unsupported ones, with those of
// kube-apiserver.
func TestFieldLabels(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, row := range table(t, "fieldlabels.tsv") {
		name, key, want := row[0]+" "+row[1], row[2], row[3]
		r, got := s.resources[name], "ok"
		hubKey, _, err := r.FieldLabel(key, "")
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s: %s, want %s", name, key, got, want)
		}
		if err != nil || key == "metadata.name" || key == "metadata.namespace" {
			continue
		}
		fields, err := codec.RecordOf(r.Kind, s.sample(t, name), nil, 0).Fields()
		if err != nil {
			t.Fatal(err)
		}
		if !fields.Has(hubKey) {
			t.Errorf("%s: objects have no field %s", name, hubKey)
		}
	}
}
