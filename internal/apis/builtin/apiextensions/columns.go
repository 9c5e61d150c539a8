package apiextensions

import (
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/custom/definition"
)

// columns returns the table columns of definitions. As in kube-apiserver, the creation column contains a time
// and not an age.
func columns() *builtin.Columns[*apiextensionsv1.CustomResourceDefinition] {
	return &builtin.Columns[*apiextensionsv1.CustomResourceDefinition]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Scope", "string", "Cluster/Namespaced"),
			builtin.Column("Versions", "string", "Served versions"),
			builtin.Column("Created At", "date", metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]),
			builtin.WideColumn("Group", "string", "API group"),
			builtin.WideColumn("Kind", "string", "CustomResource kind"),
			builtin.WideColumn("ShortNames", "string", "Short names"),
			builtin.WideColumn("Established", "boolean", "Established status"),
		},
		Cells: func(crd *apiextensionsv1.CustomResourceDefinition, _ time.Time) []any {
			return []any{
				crd.Name, string(crd.Spec.Scope), servedVersions(crd), crd.CreationTimestamp.UTC().Format(time.RFC3339),
				crd.Spec.Group, crd.Spec.Names.Kind, strings.Join(crd.Spec.Names.ShortNames, ","),
				definition.IsTrue(crd, apiextensionsv1.Established),
			}
		},
	}
}

// servedVersions formats the served versions and marks the storage version.
func servedVersions(crd *apiextensionsv1.CustomResourceDefinition) string {
	var versions []string
	for i := range crd.Spec.Versions {
		switch v := &crd.Spec.Versions[i]; {
		case v.Served && v.Storage:
			versions = append(versions, v.Name+"(storage)")
		case v.Served:
			versions = append(versions, v.Name)
		}
	}
	slices.Sort(versions)
	return strings.Join(versions, ",")
}
