package all_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/columnstest"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// recorded decodes the lines of a gzip-compressed JSON Lines file in testdata.
func recorded[T any](t *testing.T, name string) []T {
	t.Helper()
	file, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var values []T
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var value T
		if err := json.Unmarshal(lines.Bytes(), &value); err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
	}
	if len(values) == 0 {
		t.Fatalf("%s is empty", name)
	}
	return values
}

func byName(t *testing.T) map[string]*rest.Resource {
	t.Helper()
	resources, _ := build(t)
	named := map[string]*rest.Resource{}
	for _, r := range resources {
		named[r.GroupVersion.String()+" "+r.FullName()] = r
	}
	return named
}

// widened contains the resources that have gained columns since the recording. Other tests check these
// resources.
var widened = map[string]bool{"customresourcedefinitions": true}

// TestColumns compares column definitions with those recorded from kube-apiserver.
func TestColumns(t *testing.T) {
	t.Parallel()
	resources := byName(t)
	columns := columnstest.NewComparer()
	for _, want := range recorded[struct {
		GV, Resource string
		Columns      []metav1.TableColumnDefinition
	}](t, "columns.jsonl.gz") {
		r := resources[want.GV+" "+want.Resource]
		if r == nil {
			t.Errorf("%s %s is not served", want.GV, want.Resource)
			continue
		}
		if widened[want.Resource] {
			continue
		}
		if r.Table == nil {
			if len(want.Columns) != 2 || want.Columns[1].Name != "Created At" {
				t.Errorf("%s has no columns", want.Resource)
			}
			continue
		}
		if diff := columns.Diff(want.Columns, r.Table.Columns()); diff != "" {
			t.Errorf("%s %s (-recorded +ours):\n%s", want.GV, want.Resource, diff)
		}
	}
}

// TestColumnsOfBetas checks column descriptions that kube-apiserver takes from beta types. The server itself
// does not import these types.
func TestColumnsOfBetas(t *testing.T) {
	t.Parallel()
	spec := certificatesv1beta1.CertificateSigningRequestSpec{}.SwaggerDoc()
	status := certificatesv1beta1.CertificateSigningRequestStatus{}.SwaggerDoc()
	resources := byName(t)
	for resource, columns := range map[string]map[string]string{
		"rbac.authorization.k8s.io/v1 rolebindings":        {"Role": rbacv1beta1.RoleBinding{}.SwaggerDoc()["roleRef"]},
		"rbac.authorization.k8s.io/v1 clusterrolebindings": {"Role": rbacv1beta1.ClusterRoleBinding{}.SwaggerDoc()["roleRef"]},
		"certificates.k8s.io/v1 certificatesigningrequests": {
			"SignerName": spec["signerName"], "Requestor": spec["request"], "RequestedDuration": spec["expirationSeconds"], "Condition": status["conditions"],
		},
	} {
		got := map[string]string{}
		for _, c := range resources[resource].Table.Columns() {
			if _, ok := columns[c.Name]; ok {
				got[c.Name] = c.Description
			}
		}
		if diff := cmp.Diff(columns, got); diff != "" {
			t.Errorf("%s (-beta +ours):\n%s", resource, diff)
		}
	}
}

// TestCells compares table cells, except ages, with the recorded cells.
func TestCells(t *testing.T) {
	t.Parallel()
	resources := byName(t)
	for _, want := range recorded[struct {
		GV, Resource string
		Object       json.RawMessage
		Cells        []any
		Conditions   []metav1.TableRowCondition
	}](t, "cells.jsonl.gz") {
		if widened[want.Resource] {
			continue
		}
		r := resources[want.GV+" "+want.Resource]
		if r == nil || r.Table == nil {
			continue // see TestColumns
		}
		obj := r.Version.New()
		if err := json.Unmarshal(want.Object, obj); err != nil {
			t.Fatal(err)
		}
		got, conditions := cells(t, r, obj)
		for i, column := range r.Table.Columns() {
			if column.Name == "Age" && i < len(got) && i < len(want.Cells) {
				got[i], want.Cells[i] = "age", "age"
			}
		}
		if diff := cmp.Diff(want.Cells, got); diff != "" {
			t.Errorf("%s %s (-recorded +ours):\n%s\n%s", want.Resource, obj.GetName(), diff, want.Object)
		}
		if diff := cmp.Diff(want.Conditions, conditions); diff != "" {
			t.Errorf("%s %s: conditions (-recorded +ours):\n%s", want.Resource, obj.GetName(), diff)
		}
	}
}

// cells returns the table row of an object half a second after its creation. The cells have the types that
// result from decoding JSON.
func cells(t *testing.T, r *rest.Resource, obj codec.Object) ([]any, []metav1.TableRowCondition) {
	t.Helper()
	now := obj.GetCreationTimestamp().Time.Add(time.Second / 2)
	hub, err := r.Version.ConvertToHub(obj)
	if err != nil {
		t.Fatal(err)
	}
	row, conditions, err := r.Table.Cells(hub, now)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	var plain []any
	if err := json.Unmarshal(text, &plain); err != nil {
		t.Fatal(err)
	}
	return plain, conditions
}
