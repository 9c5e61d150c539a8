package certificates

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// anyName accepts all names, because validateBundle validates them together with the signer.
func anyName(string, bool) []string { return nil }

func bundleColumns() *builtin.Columns[*certificatesv1.ClusterTrustBundle] {
	return &builtin.Columns[*certificatesv1.ClusterTrustBundle]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("SignerName", "string", certificatesv1.ClusterTrustBundleSpec{}.SwaggerDoc()["signerName"]),
		},
		Cells: func(bundle *certificatesv1.ClusterTrustBundle, _ time.Time) []any {
			return []any{bundle.Name, builtin.OrNone(bundle.Spec.SignerName)}
		},
	}
}
