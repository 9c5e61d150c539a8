package storage

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func class(name, annotation string, age time.Duration) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.NewTime(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).Add(-age)),
	}}
	if annotation != "" {
		c.Annotations = map[string]string{annotation: "true"}
	}
	return c
}

func TestDefaultClass(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		classes []*storagev1.StorageClass
		want    []string
	}{
		"none":    {[]*storagev1.StorageClass{class("a", "", 0)}, []string{"a"}},
		"newest":  {[]*storagev1.StorageClass{class("a", defaultAnnotation, time.Hour), class("b", betaDefaultAnnotation, 0)}, []string{"a", "b (default)"}},
		"by name": {[]*storagev1.StorageClass{class("b", defaultAnnotation, 0), class("a", defaultAnnotation, 0)}, []string{"b", "a (default)"}},
	} {
		columns := classColumns()
		var rows [][]any
		for _, c := range test.classes {
			rows = append(rows, columns.Cells(c, time.Now()))
		}
		var got []string
		for _, i := range columns.SortRows(test.classes, rows) {
			got = append(got, rows[i][0].(string))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestDriverGeneration(t *testing.T) {
	t.Parallel()
	old, changed := &storagev1.CSIDriver{}, &storagev1.CSIDriver{}
	prepareDriverUpdate(&builtin.Operation{Context: t.Context()}, changed, old)
	if changed.Generation != 0 {
		t.Errorf("generation is %d without a change", changed.Generation)
	}
	yes := true
	changed.Spec.RequiresRepublish = &yes
	prepareDriverUpdate(&builtin.Operation{Context: t.Context()}, changed, old)
	if changed.Generation != 1 {
		t.Errorf("generation is %d after the first change", changed.Generation)
	}
}
