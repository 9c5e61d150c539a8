package resourcequotas

import (
	"context"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/registry/quota"
	"mainstay.dev/mainstay/internal/rest"
)

// TestChargedToOneQuota checks that a write that was charged to one quota of a namespace, but not to another one,
// causes the other quota to be computed. This happens if another server creates an object before it has
// observed a new quota.
func TestChargedToOneQuota(t *testing.T) {
	t.Parallel()
	hub := &codec.Version{GVK: corev1.SchemeGroupVersion.WithKind("ResourceQuota"), New: func() codec.Object { return &corev1.ResourceQuota{} }}
	kind := &codec.Kind{Hub: hub, Versions: []*codec.Version{hub}}
	ledger := quota.New()
	quotas := map[string][]byte{}
	for _, name := range []string{"charged", "missed", "other"} {
		counted := corev1.ResourceList{"secrets": resource.MustParse("1")}
		if name == "other" {
			counted = corev1.ResourceList{"configmaps": resource.MustParse("1")}
		}
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "a"}, Spec: corev1.ResourceQuotaSpec{Hard: counted}, Status: corev1.ResourceQuotaStatus{Hard: counted, Used: counted}}
		stored, err := kind.EncodeStored(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		quotas[name] = stored
		if err := ledger.Observer().Written(codec.RecordOf(kind, q, nil, 1)); err != nil {
			t.Fatal(err)
		}
	}
	enqueued := make(chan string, 9)
	s := &subscriber{ctx: t.Context(), Controller: &Controller{config: Config{
		Ledger: ledger, Logger: slog.New(slog.DiscardHandler),
		FindResource: func(path string) (changes.Resource, bool) {
			return changes.Resource{Path: path, Resource: &rest.Resource{Name: path, GroupVersion: corev1.SchemeGroupVersion, Kind: kind}}, true
		},
	}}}
	s.queue = work.New(t.Context(), work.Config[types.NamespacedName]{Name: Name, Workers: 1, Logger: s.config.Logger, Sync: func(_ context.Context, name types.NamespacedName) error {
		enqueued <- name.Name
		return nil
	}})
	t.Cleanup(s.queue.Close)
	s.Reset()
	s.Synced()
	s.Changed(&changes.Change{Path: "resourcequotas", Namespace: "a", Name: "charged", Value: quotas["charged"], Prev: quotas["charged"], Revision: 7})
	s.Changed(&changes.Change{Path: "secrets", Namespace: "a", Name: "s", Value: []byte("{}"), Revision: 7})
	if got := <-enqueued; got != "missed" {
		t.Errorf("quota %s is computed, want only the quota missed", got)
	}
	s.queue.Add(types.NamespacedName{Name: "end"})
	if got := <-enqueued; got != "end" {
		t.Errorf("quota %s is computed, want only the quota missed", got)
	}
	// A deletion that no quota is charged for.
	s.Changed(&changes.Change{Path: "secrets", Namespace: "a", Name: "s", Prev: []byte("{}"), Revision: 8})
	got := map[string]bool{<-enqueued: true, <-enqueued: true}
	if got["other"] || len(got) != 2 {
		t.Errorf("the quotas %v are computed after a deletion, want both quotas of secrets", got)
	}
}
