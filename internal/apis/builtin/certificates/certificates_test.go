package certificates

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/request"
)

func condition(kind certificatesv1.RequestConditionType, reason string, since time.Time) certificatesv1.CertificateSigningRequestCondition {
	return certificatesv1.CertificateSigningRequestCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: reason,
		LastUpdateTime: metav1.NewTime(since), LastTransitionTime: metav1.NewTime(since),
	}
}

func TestRequester(t *testing.T) {
	t.Parallel()
	ctx := request.NewContext(t.Context(), &request.Info{}, time.Time{})
	request.SetUser(ctx, &request.User{Name: "jane", UID: "1", Groups: []string{"devs"}, Extra: map[string][]string{"a": {"b"}}})
	csr := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
		SignerName: "s", Username: "root", Groups: []string{"system:masters"}, Extra: map[string]certificatesv1.ExtraValue{"c": {"d"}},
	}}
	prepareRequest(&builtin.Operation{Context: ctx}, csr)
	want := certificatesv1.CertificateSigningRequestSpec{
		SignerName: "s", Username: "jane", UID: "1", Groups: []string{"devs"}, Extra: map[string]certificatesv1.ExtraValue{"a": {"b"}},
	}
	if diff := cmp.Diff(want, csr.Spec); diff != "" {
		t.Error(diff)
	}
}

func TestStatusKeepsDecision(t *testing.T) {
	t.Parallel()
	then := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	old := &certificatesv1.CertificateSigningRequest{Status: certificatesv1.CertificateSigningRequestStatus{
		Conditions: []certificatesv1.CertificateSigningRequestCondition{condition(certificatesv1.CertificateApproved, "good", then)},
	}}
	csr := old.DeepCopy()
	csr.Status.Certificate = []byte("PEM")
	csr.Status.Conditions[0].Reason = "other"
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue})
	prepareRequestStatus(&builtin.Operation{Context: t.Context()}, csr, old)
	if diff := cmp.Diff(old.Status.Conditions[0], csr.Status.Conditions[0]); diff != "" {
		t.Errorf("the decision was changed:\n%s", diff)
	}
	if failed := csr.Status.Conditions[1]; failed.LastUpdateTime.IsZero() || failed.LastTransitionTime.IsZero() {
		t.Errorf("no times were set: %+v", failed)
	}
	if string(csr.Status.Certificate) != "PEM" {
		t.Error("the certificate was not written")
	}
}

func TestApprovalChangesOnlyConditions(t *testing.T) {
	t.Parallel()
	then := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	old := &certificatesv1.CertificateSigningRequest{
		Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: "s"},
		Status: certificatesv1.CertificateSigningRequestStatus{
			Conditions: []certificatesv1.CertificateSigningRequestCondition{condition("X", "x", then)}, Certificate: []byte("PEM"),
		},
	}
	csr := &certificatesv1.CertificateSigningRequest{Status: certificatesv1.CertificateSigningRequestStatus{
		Conditions: []certificatesv1.CertificateSigningRequestCondition{
			condition(certificatesv1.CertificateApproved, "good", time.Time{}), condition("X", "y", time.Time{}),
		},
	}}
	prepareApproval(&builtin.Operation{Context: t.Context()}, csr, old)
	if diff := cmp.Diff(old.Spec, csr.Spec); diff != "" {
		t.Errorf("the spec was changed:\n%s", diff)
	}
	if string(csr.Status.Certificate) != "PEM" {
		t.Error("the certificate was changed")
	}
	got := csr.Status.Conditions
	if len(got) != 2 || got[0].LastTransitionTime.IsZero() || !got[1].LastTransitionTime.Time.Equal(then) {
		t.Errorf("conditions are %+v", got)
	}
}

func TestBundleNames(t *testing.T) {
	t.Parallel()
	validator := validation.NewValidator(feature.Defaults())
	for _, test := range []struct{ signer, name, want string }{
		{"", "a.b", ""},
		{"", "a:b", `metadata.name: Invalid value: "a:b": ClusterTrustBundle without signer name must not have ":" in its name`},
		{"example.com/signer", "example.com:signer:rich", ""},
		{"example.com/signer", "a.b", `metadata.name: Invalid value: "a.b": ClusterTrustBundle for signerName example.com/signer must be named with prefix example.com:signer:`},
	} {
		bundle := &certificatesv1.ClusterTrustBundle{
			ObjectMeta: metav1.ObjectMeta{Name: test.name}, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: test.signer},
		}
		got := ""
		faults := validator.Validate(t.Context(), func(f validation.Field) { validateBundleName(f, bundle, nil) })
		if err := faults.ToAggregate(); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%q of %q: %q, want %q", test.name, test.signer, got, test.want)
		}
	}
}
