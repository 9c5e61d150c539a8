package core_test

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/columnstest"
	"mainstay.dev/mainstay/internal/codec"
)

// testdata contains table columns, table cells and other behavior that were recorded from kube-apiserver.
//
//go:embed testdata
var testdata embed.FS

func TestColumnDefinitions(t *testing.T) {
	t.Parallel()
	b, err := testdata.ReadFile("testdata/columns.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string][]metav1.TableColumnDefinition
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	a := declared(t)
	columns := columnstest.NewComparer()
	for name, definitions := range want {
		r := a.resource(name)
		if r.Table == nil {
			if name != "v1 limitranges" {
				t.Errorf("%s has no columns", name)
			}
			continue
		}
		if diff := columns.Diff(definitions, r.Table.Columns()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// recordedRow is an object with its table row. Age is the object's age in seconds.
type recordedRow struct {
	Resource   string
	Age        int
	Object     json.RawMessage
	Cells      []any
	Conditions []metav1.TableRowCondition
}

func TestCells(t *testing.T) {
	t.Parallel()
	b, err := testdata.ReadFile("testdata/cells.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	a := declared(t)
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, len(b))
	for lines.Scan() {
		var row recordedRow
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		checkRow(t, a, &row)
	}
}

func checkRow(t *testing.T, a *api, row *recordedRow) {
	t.Helper()
	r := a.resource(row.Resource)
	decoded, err := r.Version.Decode(row.Object, codec.JSON, true)
	if err != nil {
		t.Fatal(err)
	}
	obj, err := r.Version.ConvertToHub(decoded)
	if err != nil {
		t.Fatal(err)
	}
	if r.Table == nil {
		return // name and age, as for all kinds
	}
	now := obj.GetCreationTimestamp().Add(time.Duration(row.Age) * time.Second)
	cells, conditions, err := r.Table.Cells(obj, now)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(cells)
	if err != nil {
		t.Fatal(err)
	}
	var got []any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(row.Cells, got); diff != "" {
		t.Errorf("%s %s: cells (-want +got):\n%s", row.Resource, obj.GetName(), diff)
	}
	if diff := cmp.Diff(row.Conditions, conditions, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s %s: conditions (-want +got):\n%s", row.Resource, obj.GetName(), diff)
	}
}

// TestWithoutTable checks for which resources and subresources WithoutTable is set.
func TestWithoutTable(t *testing.T) {
	t.Parallel()
	a := declared(t)
	for name, without := range map[string]bool{
		"v1 pods/eviction": true, "v1 pods/binding": true, "v1 bindings": true, "v1 pods": false, "v1 pods/status": false,
		"v1 replicationcontrollers/scale": false, "v1 limitranges": false, "v1 componentstatuses": false,
	} {
		if got := a.resource(name).WithoutTable; got != without {
			t.Errorf("%s: %v; want %v", name, got, without)
		}
	}
}
