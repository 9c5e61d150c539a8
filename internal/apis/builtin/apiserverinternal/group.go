// Package apiserverinternal declares the resource of internal.apiserver.k8s.io. API servers that share a
// storage use it to publish their storage versions.
package apiserverinternal

import (
	"fmt"
	"strings"
	"time"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// V1Alpha1 returns the group version internal.apiserver.k8s.io/v1alpha1.
func V1Alpha1() builtin.Group {
	return builtin.Group{GroupVersion: apiserverinternalv1alpha1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*apiserverinternalv1alpha1.StorageVersion]{
			Names:       builtin.Names{Plural: "storageversions", Kind: "StorageVersion"},
			WritePolicy: builtin.WritePolicy{RequireResourceVersion: true, ValidateName: versionName},
			Status:      &builtin.Status[*apiserverinternalv1alpha1.StorageVersion]{Validate: validateStatus},
			Columns:     columns(),
		}),
	}}
}

// shownServers is the maximum number of servers in a table cell.
const shownServers = 3

func columns() *builtin.Columns[*apiserverinternalv1alpha1.StorageVersion] {
	status := apiserverinternalv1alpha1.StorageVersionStatus{}.SwaggerDoc()
	return &builtin.Columns[*apiserverinternalv1alpha1.StorageVersion]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("CommonEncodingVersion", "string", status["commonEncodingVersion"]),
			builtin.Column("StorageVersions", "string", status["storageVersions"]),
			builtin.AgeColumn(),
		},
		Cells: func(v *apiserverinternalv1alpha1.StorageVersion, now time.Time) []any {
			common := builtin.Unset
			if v.Status.CommonEncodingVersion != nil {
				common = *v.Status.CommonEncodingVersion
			}
			return []any{v.Name, common, serverVersions(v.Status.StorageVersions), builtin.Age(v.CreationTimestamp, now)}
		},
	}
}

// serverVersions formats the encoding versions of the first shownServers servers.
func serverVersions(servers []apiserverinternalv1alpha1.ServerStorageVersion) string {
	if len(servers) == 0 {
		return builtin.Unset
	}
	var list []string
	for i := range servers[:min(len(servers), shownServers)] {
		list = append(list, servers[i].APIServerID+"="+servers[i].EncodingVersion)
	}
	text := strings.Join(list, ",")
	if more := len(servers) - shownServers; more > 0 {
		text += fmt.Sprintf(" + %d more...", more)
	}
	return text
}
