package storage_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// TestListMetrics checks the numbers of fetched, evaluated and returned objects of a list of 250 pods. The last
// 50 pods are on the node n.
func TestListMetrics(t *testing.T) {
	t.Parallel()
	backend := storagetest.InMemory(t)
	for i := range 250 {
		value := `{"apiVersion":"v1","kind":"Pod"}`
		if i >= 200 {
			value = `{"apiVersion":"v1","kind":"Pod","spec":{"nodeName":"n"}}`
		}
		op := kv.Op{Key: fmt.Sprintf("/registry/pods/a/%03d", i), Value: []byte(value), Expect: kv.AnyRevision}
		if _, err := backend.Commit(t.Context(), op); err != nil {
			t.Fatal(err)
		}
	}
	onNode := fields.OneTermEqualSelector("spec.nodeName", "n")
	for name, test := range map[string]struct {
		options                      rest.ListOptions
		fetched, evaluated, returned float64
	}{
		"all":              {rest.ListOptions{}, 250, 250, 250},
		"selected":         {rest.ListOptions{Fields: onNode}, 250, 250, 50},
		"page":             {rest.ListOptions{Limit: 10}, 11, 10, 10},
		"last page":        {rest.ListOptions{Limit: 250}, 250, 250, 250},
		"page of selected": {rest.ListOptions{Limit: 10, Fields: onNode}, 250, 210, 10},
		"page of others":   {rest.ListOptions{Limit: 10, Fields: fields.OneTermNotEqualSelector("spec.nodeName", "n")}, 100, 10, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := prometheus.NewRegistry()
			metrics, err := storage.NewMetrics(registry)
			if err != nil {
				t.Fatal(err)
			}
			store, err := storage.New(storage.Config{
				Backend: backend, ResourcePrefix: "pods", Kind: storagetest.PodKind(), Namespaced: true,
				GroupResource: schema.GroupResource{Resource: "pods"}, Metrics: metrics,
			})
			if err != nil {
				t.Fatal(err)
			}
			list, err := store.List(t.Context(), "", test.options)
			if err != nil {
				t.Fatal(err)
			}
			for _, err := range list.Items {
				if err != nil {
					t.Fatal(err)
				}
			}
			got := map[string]float64{}
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, family := range families {
				got[family.GetName()] = family.GetMetric()[0].GetCounter().GetValue()
			}
			for name, want := range map[string]float64{
				"apiserver_storage_list_total":                   1,
				"apiserver_storage_list_fetched_objects_total":   test.fetched,
				"apiserver_storage_list_evaluated_objects_total": test.evaluated,
				"apiserver_storage_list_returned_objects_total":  test.returned,
			} {
				if got[name] != want {
					t.Errorf("%s is %v, want %v", name, got[name], want)
				}
			}
		})
	}
}
