package custom

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// TestStoredWithoutGeneration checks that old stored objects without a generation have generation 1
// in reads and lists.
func TestStoredWithoutGeneration(t *testing.T) {
	t.Parallel()
	backend := storagetest.InMemory(t)
	s := sourceOver(t, backend, time.Hour)
	s.run(t)
	if _, err := s.config.Definitions.Create(t.Context(), widgetDefinition("a.example.com"), storage.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	const stored = `{"apiVersion":"a.example.com/v1","kind":"Widget","metadata":{"name":"old","uid":"u"},"spec":{}}`
	if _, err := backend.Commit(t.Context(), kv.Op{Key: "/registry/a.example.com/widgets/old", Value: []byte(stored)}); err != nil {
		t.Fatal(err)
	}
	widgets := s.awaitServed(t, "a.example.com")
	check := func(record *codec.Record, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := record.Append(nil, widgets.Version, codec.JSON)
		if err != nil || !strings.Contains(string(encoded), `"generation":1`) {
			t.Errorf("encode the stored object: %s, error %v; want generation 1", encoded, err)
		}
	}
	check(widgets.Storage.(rest.Getter).Get(t.Context(), types.NamespacedName{Name: "old"}, metav1.GetOptions{}))
	list, err := widgets.Storage.(rest.Lister).List(t.Context(), "", rest.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for record, err := range list.Items {
		check(record, err)
	}
}
