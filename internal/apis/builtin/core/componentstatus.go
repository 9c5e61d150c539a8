package core

import (
	"context"
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// componentStatuses declares the component statuses. They report the health of the storage under the names
// that clients expect. The server does not contact other components; their leases show whether they run.
func componentStatuses() builtin.Virtual {
	version := builtin.VirtualVersion[corev1.ComponentStatus](corev1.SchemeGroupVersion.WithKind("ComponentStatus"))
	return builtin.Virtual{
		Name: "componentstatuses", Version: version, ShortNames: []string{"cs"},
		Warning: "v1 ComponentStatus is deprecated in v1.19+", Columns: builtin.Table(componentStatusColumns()),
		Storage: func(env *builtin.Env) rest.Storage {
			return &componentReader{kind: &codec.Kind{Hub: version}, health: env.Storage.Health}
		},
	}
}

// storageComponent is the name of the first etcd member. It represents the storage.
const storageComponent = "etcd-0"

type componentReader struct {
	kind *codec.Kind
	// health returns nil if the storage is healthy, and otherwise an error. A nil function means that the
	// health is unknown.
	health func(context.Context) error
}

var (
	_ rest.Getter = (*componentReader)(nil)
	_ rest.Lister = (*componentReader)(nil)
)

// Get implements rest.Getter.
func (r *componentReader) Get(ctx context.Context, name types.NamespacedName, _ metav1.GetOptions) (*codec.Record, error) {
	if r.health == nil || name.Name != storageComponent {
		return nil, apierrors.NewNotFound(corev1.Resource("componentstatus"), name.Name)
	}
	return r.status(ctx), nil
}

// List implements rest.Lister.
func (r *componentReader) List(ctx context.Context, _ string, options rest.ListOptions) (*rest.List, error) {
	var found []*codec.Record
	if r.health != nil {
		record := r.status(ctx)
		matches, err := record.Matches(options.Labels, options.Fields)
		if err != nil {
			return nil, err
		}
		if matches {
			found = append(found, record)
		}
	}
	return &rest.List{Items: all(found)}, nil
}

func all(records []*codec.Record) iter.Seq2[*codec.Record, error] {
	return func(yield func(*codec.Record, error) bool) {
		for _, record := range records {
			if !yield(record, nil) {
				return
			}
		}
	}
}

func (r *componentReader) status(ctx context.Context) *codec.Record {
	condition := corev1.ComponentCondition{Type: corev1.ComponentHealthy, Status: corev1.ConditionTrue, Message: "ok"}
	if err := r.health(ctx); err != nil {
		condition.Status, condition.Message = corev1.ConditionFalse, err.Error()
	}
	return codec.RecordOf(r.kind, &corev1.ComponentStatus{
		ObjectMeta: metav1.ObjectMeta{Name: storageComponent}, Conditions: []corev1.ComponentCondition{condition},
	}, nil, 0)
}

func componentStatusColumns() *builtin.Columns[*corev1.ComponentStatus] {
	return &builtin.Columns[*corev1.ComponentStatus]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Status", "string", "Status of the component conditions"),
			builtin.Column("Message", "string", "Message of the component conditions"),
			builtin.Column("Error", "string", "Error of the component conditions"),
		},
		Cells: func(component *corev1.ComponentStatus, _ time.Time) []any {
			for i := range component.Conditions {
				c := &component.Conditions[i]
				if c.Type != corev1.ComponentHealthy {
					continue
				}
				status := "Unhealthy"
				if c.Status == corev1.ConditionTrue {
					status = "Healthy"
				}
				return []any{component.Name, status, c.Message, c.Error}
			}
			return []any{component.Name, "Unknown", "", ""}
		},
	}
}
