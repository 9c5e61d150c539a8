package apps

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func controllerRevisionColumns() *builtin.Columns[*appsv1.ControllerRevision] {
	return &builtin.Columns[*appsv1.ControllerRevision]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Controller", "string", "Controller of the object"),
			builtin.Column("Revision", "string", appsv1.ControllerRevision{}.SwaggerDoc()["revision"]),
			builtin.AgeColumn(),
		},
		Cells: func(revision *appsv1.ControllerRevision, now time.Time) []any {
			return []any{
				revision.Name, controllerText(metav1.GetControllerOf(revision)), revision.Revision,
				builtin.Age(revision.CreationTimestamp, now),
			}
		},
	}
}

// controllerText formats an owner reference in the same way as kubectl.
func controllerText(owner *metav1.OwnerReference) string {
	if owner == nil {
		return builtin.None
	}
	kind := strings.ToLower(owner.Kind)
	if gv, err := schema.ParseGroupVersion(owner.APIVersion); err == nil && gv.Group != "" {
		kind += "." + gv.Group
	}
	return kind + "/" + owner.Name
}
