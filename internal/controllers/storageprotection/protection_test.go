package storageprotection

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/work"
)

// TestChangedUsers checks which deleted claims are processed after a change of a pod: each claim requires a list of
// all pods of its namespace, so only the claims that the pod may have used are processed.
func TestChangedUsers(t *testing.T) {
	t.Parallel()
	const deleted = `{"metadata":{"uid":"u","deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["kubernetes.io/pvc-protection"]}}`
	pod := []byte(`{"metadata":{"uid":"p"},"spec":{"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"data-1"}}]}}`)
	for _, tt := range []struct {
		name   string
		change changes.Change
		want   []string
	}{
		{"the user is deleted", changes.Change{Namespace: "a", Name: "p", Prev: pod}, []string{"data-1"}},
		{"the user is changed", changes.Change{Namespace: "a", Name: "p", Prev: pod, Value: pod}, []string{"data-1"}},
		{"the owner of an ephemeral volume", changes.Change{Namespace: "a", Name: "data", Prev: []byte("{}")}, []string{"data-1", "data-2"}},
		{"unknown", changes.Change{Namespace: "a", Name: "p"}, []string{"data-1", "data-2"}},
		{"another namespace", changes.Change{Namespace: "b", Name: "p", Prev: pod}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var processed []string
				s := &subscriber{Controller: &Controller{protection: protections()[0]}}
				s.queue = work.New(t.Context(), work.Config[types.NamespacedName]{Name: "test", Workers: 1, Logger: slog.New(slog.DiscardHandler), Sync: func(_ context.Context, name types.NamespacedName) error {
					mu.Lock()
					defer mu.Unlock()
					processed = append(processed, name.Name)
					return nil
				}})
				s.Reset()
				for _, name := range []string{"data-1", "data-2"} {
					s.Changed(&changes.Change{Path: "persistentvolumeclaims", Namespace: "a", Name: name, Value: []byte(deleted)})
				}
				synctest.Wait()
				processed = nil
				tt.change.Path = "pods"
				s.Changed(&tt.change)
				synctest.Wait()
				slices.Sort(processed)
				if !slices.Equal(processed, tt.want) {
					t.Errorf("processed %q, want %q", processed, tt.want)
				}
			})
		})
	}
}
