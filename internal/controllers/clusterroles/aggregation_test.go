package clusterroles

import (
	"context"
	"errors"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// brokenStorage contains no roles, and its lists fail with err.
type brokenStorage struct {
	storage.Interface
	err error
}

func (s brokenStorage) List(context.Context, string, rest.ListOptions) (*rest.List, error) {
	return &rest.List{Items: func(yield func(*codec.Record, error) bool) { yield(nil, s.err) }}, nil
}

func (brokenStorage) Get(context.Context, types.NamespacedName, storage.ReadOptions) (*codec.Record, error) {
	return nil, storage.ErrNotFound
}

// TestFailedRead checks that every change to a role is relevant after a failed read of the roles. The change
// then causes another read before the retry delay has passed.
func TestFailedRead(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	a := &Aggregator{storage: brokenStorage{err: failed}, members: map[string]bool{}}
	if err := a.Aggregate(t.Context()); !errors.Is(err, failed) {
		t.Errorf("aggregate: %v", err)
	}
	if relevant, err := a.isRelevant(t.Context(), "a"); !relevant || err != nil {
		t.Errorf("change after a failed read: relevant %t, error %v; want true and no error", relevant, err)
	}
}

// TestFailedWrite checks that all outdated roles are written, even if some of the writes fail.
func TestFailedWrite(t *testing.T) {
	t.Parallel()
	member := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "member", Labels: map[string]string{"aggregate": "true"}},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}},
	}
	rule := &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: member.Labels}}}
	kind := &codec.Kind{Hub: &codec.Version{GVK: rbacv1.SchemeGroupVersion.WithKind("ClusterRole")}}
	list := &rest.List{Items: func(yield func(*codec.Record, error) bool) {
		for _, role := range []*rbacv1.ClusterRole{
			{ObjectMeta: metav1.ObjectMeta{Name: "a"}, AggregationRule: rule}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}, AggregationRule: rule}, member,
		} {
			if !yield(codec.RecordOf(kind, role, nil, 0), nil) {
				return
			}
		}
	}}
	a := New(Config{Access: &loopback.Access{Find: func(schema.GroupVersion, string, string) *rest.Resource { return nil }}}) // each write fails
	err := a.aggregate(t.Context(), list)
	for _, name := range []string{"a", "b"} {
		if err == nil || !strings.Contains(err.Error(), "ClusterRole "+name) {
			t.Errorf("the role %s was not written: %v", name, err)
		}
	}
}
