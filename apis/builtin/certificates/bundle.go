package certificates

import (
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/apis/builtin"
	"mainstay.dev/mainstay/apis/builtin/validation"
)

// anyName leaves names to validateBundleName, which knows the signer.
func anyName(string, bool) []string { return nil }

// validateBundleName ties the name to the signer: without one it is a DNS
// subdomain, with one it begins with the signer's name.
func validateBundleName(f validation.Field, bundle, old *certificatesv1.ClusterTrustBundle) {
	if old != nil {
		return // names do not change
	}
	metadata := f.Child("metadata")
	if name := bundle.GenerateName; name != "" {
		metadata.Child("generateName").InvalidFor(name, bundleNameProblems(bundle.Spec.SignerName, name, true))
	}
	if name := bundle.Name; name != "" {
		metadata.Child("name").InvalidFor(name, bundleNameProblems(bundle.Spec.SignerName, name, false))
	}
}

func bundleNameProblems(signer, name string, prefix bool) []string {
	if signer == "" {
		if strings.Contains(name, ":") {
			return []string{`ClusterTrustBundle without signer name must not have ":" in its name`}
		}
		return apivalidation.NameIsDNSSubdomain(name, prefix)
	}
	begin := strings.ReplaceAll(signer, "/", ":") + ":"
	rest, ok := strings.CutPrefix(name, begin)
	if !ok {
		return []string{fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signer, begin)}
	}
	return apivalidation.NameIsDNSSubdomain(rest, prefix)
}

func bundleColumns() *builtin.Columns[certificatesv1.ClusterTrustBundle] {
	return &builtin.Columns[certificatesv1.ClusterTrustBundle]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("SignerName", "string", certificatesv1.ClusterTrustBundleSpec{}.SwaggerDoc()["signerName"]),
		},
		Cells: func(bundle *certificatesv1.ClusterTrustBundle, _ time.Time) []any {
			return []any{bundle.Name, builtin.OrNone(bundle.Spec.SignerName)}
		},
	}
}
