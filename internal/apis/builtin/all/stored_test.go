package all_test

import (
	"reflect"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	admissionregistrationv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
)

// TestStoredVersions checks that kinds stored in an older version have the same protobuf message in both
// versions, field by field.
func TestStoredVersions(t *testing.T) {
	t.Parallel()
	older := map[string][2]any{
		"MutatingAdmissionPolicy":        {admissionregistrationv1.MutatingAdmissionPolicy{}, admissionregistrationv1beta1.MutatingAdmissionPolicy{}},
		"MutatingAdmissionPolicyBinding": {admissionregistrationv1.MutatingAdmissionPolicyBinding{}, admissionregistrationv1beta1.MutatingAdmissionPolicyBinding{}},
		"ClusterTrustBundle":             {certificatesv1.ClusterTrustBundle{}, certificatesv1beta1.ClusterTrustBundle{}},
		"PodCertificateRequest":          {certificatesv1.PodCertificateRequest{}, certificatesv1beta1.PodCertificateRequest{}},
		"DeviceTaintRule":                {resourcev1.DeviceTaintRule{}, resourcev1beta2.DeviceTaintRule{}},
		"StorageVersionMigration":        {storagemigrationv1.StorageVersionMigration{}, storagemigrationv1beta1.StorageVersionMigration{}},
	}
	resources, _ := build(t)
	for _, r := range resources {
		if r.Subresource != "" || r.Kind == nil || r.Kind.Stored == nil || r.Kind.Stored == r.Kind.Hub {
			continue
		}
		kind := r.Version.GVK.Kind
		types, ok := older[kind]
		if !ok {
			t.Errorf("%s is stored as %s, which this test does not contain", kind, r.Kind.Stored.GVK)
			continue
		}
		sameMessage(t, kind, reflect.TypeOf(types[0]), reflect.TypeOf(types[1]), map[reflect.Type]bool{})
	}
}

// lost contains the number of fields that exist in the older version of a type but no longer in the newer one.
// They are dropped when an object is read.
var lost = map[string]int{"PodCertificateRequest.Spec": 2} // pkixPublicKey, proofOfPossession

func sameMessage(t *testing.T, path string, a, b reflect.Type, seen map[reflect.Type]bool) {
	t.Helper()
	if a.Kind() != b.Kind() {
		t.Errorf("%s: the types %s and %s are of different kinds", path, a, b)
		return
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Slice:
		sameMessage(t, path, a.Elem(), b.Elem(), seen)
	case reflect.Map:
		sameMessage(t, path, a.Key(), b.Key(), seen)
		sameMessage(t, path, a.Elem(), b.Elem(), seen)
	case reflect.Struct:
		if a == b || seen[a] {
			return
		}
		seen[a] = true
		fa, fb := protobufFields(a), protobufFields(b)
		for number, field := range fa {
			other, ok := fb[number]
			if !ok || field.Name != other.Name {
				t.Errorf("%s: %s has no field %s", path, b, field.Name)
				continue
			}
			sameMessage(t, path+"."+field.Name, field.Type, other.Type, seen)
		}
		if len(fa)+lost[path] != len(fb) {
			t.Errorf("%s: the versions have %d and %d fields", path, len(fa), len(fb))
		}
	}
}

// protobufFields returns the fields of a message by their wire type and field number.
func protobufFields(t reflect.Type) map[string]reflect.StructField {
	fields := map[string]reflect.StructField{}
	for i := range t.NumField() {
		tag := strings.Split(t.Field(i).Tag.Get("protobuf"), ",")
		if len(tag) > 1 {
			fields[tag[0]+","+tag[1]] = t.Field(i)
		}
	}
	return fields
}

// TestStoredForm encodes and decodes a recorded object of every kind in its storage encoding. The encoding is
// protobuf, except for definitions.
func TestStoredForm(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for name := range s.samples {
		r := s.resources[name]
		obj := s.sample(t, name)
		value, err := r.Kind.EncodeStored(t.Context(), obj)
		if err != nil {
			t.Errorf("encode %s for storage: %v", name, err)
			continue
		}
		form := "k8s\x00"
		if name == "apiextensions.k8s.io/v1 customresourcedefinitions" {
			form = "{"
		}
		if !strings.HasPrefix(string(value), form) {
			t.Errorf("%s is not stored as %q", name, form)
		}
		back, err := r.Kind.DecodeStored(value, 0)
		if err != nil {
			t.Errorf("decode the stored %s: %v", name, err)
			continue
		}
		again, err := r.Kind.EncodeStored(t.Context(), back)
		if err != nil || string(again) != string(value) {
			t.Errorf("%s is stored differently after it was read: %v", name, err)
		}
	}
}
