package certificates

import (
	"context"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/apis/builtin"
)

// anyName leaves names to validateBundleName, which knows the signer.
func anyName(string, bool) []string { return nil }

// validateBundleName ties the name to the signer: without one it is a DNS
// subdomain, with one it begins with the signer's name.
func validateBundleName(_ context.Context, bundle *certificatesv1.ClusterTrustBundle) field.ErrorList {
	var errs field.ErrorList
	metadata := field.NewPath("metadata")
	if bundle.GenerateName != "" {
		for _, problem := range bundleNameProblems(bundle.Spec.SignerName, bundle.GenerateName, true) {
			errs = append(errs, field.Invalid(metadata.Child("generateName"), bundle.GenerateName, problem))
		}
	}
	if bundle.Name != "" {
		for _, problem := range bundleNameProblems(bundle.Spec.SignerName, bundle.Name, false) {
			errs = append(errs, field.Invalid(metadata.Child("name"), bundle.Name, problem))
		}
	}
	return errs
}

func bundleNameProblems(signer, name string, prefix bool) []string {
	if signer == "" {
		if strings.Contains(name, ":") {
			return []string{`ClusterTrustBundle without signer name must not have ":" in its name`}
		}
		return validation.NameIsDNSSubdomain(name, prefix)
	}
	begin := strings.ReplaceAll(signer, "/", ":") + ":"
	rest, ok := strings.CutPrefix(name, begin)
	if !ok {
		return []string{fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signer, begin)}
	}
	return validation.NameIsDNSSubdomain(rest, prefix)
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
