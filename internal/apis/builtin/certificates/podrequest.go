package certificates

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// preparePodRequestStatus preserves the metadata. As in kube-apiserver, the client nevertheless becomes a
// manager of the metadata, unlike with other kinds that preserve it.
func preparePodRequestStatus(_ *builtin.Operation, r, old *certificatesv1.PodCertificateRequest) {
	metav1.ResetObjectMetaForStatus(&r.ObjectMeta, &old.ObjectMeta)
}

func podRequestColumns() *builtin.Columns[*certificatesv1.PodCertificateRequest] {
	spec := certificatesv1.PodCertificateRequestSpec{}.SwaggerDoc()
	return &builtin.Columns[*certificatesv1.PodCertificateRequest]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("PodName", "string", spec["podName"]),
			builtin.Column("ServiceAccountName", "string", spec["serviceAccountName"]),
			builtin.Column("NodeName", "string", spec["nodeName"]),
			builtin.Column("SignerName", "string", spec["signerName"]),
			builtin.Column("State", "string", "Is the request Pending, Issued, Denied, or Failed?"),
			builtin.Column("UnverifiedUserAnnotations", "string", spec["unverifiedUserAnnotations"]),
		},
		Cells: func(r *certificatesv1.PodCertificateRequest, _ time.Time) []any {
			return []any{
				r.Name, r.Spec.PodName, r.Spec.ServiceAccountName, string(r.Spec.NodeName), r.Spec.SignerName,
				podRequestState(r), labels.FormatLabels(r.Spec.UnverifiedUserAnnotations),
			}
		},
	}
}

func podRequestState(r *certificatesv1.PodCertificateRequest) string {
	for i := range r.Status.Conditions {
		switch kind := r.Status.Conditions[i].Type; kind {
		case certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied,
			certificatesv1.PodCertificateRequestConditionTypeFailed:
			return kind
		}
	}
	return "Pending"
}
