package plugin_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/plugin"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

// rights allows the listed actions of the user joe, such as "sign example.com/s".
type rights []string

func (r rights) Authorize(_ context.Context, a *authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.User.Name == "joe" && a.ResourceRequest && a.APIGroup == "certificates.k8s.io" && a.Resource == "signers" && slices.Contains(r, a.Verb+" "+a.Name) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func csr(change func(*certificatesv1.CertificateSigningRequest)) *certificatesv1.CertificateSigningRequest {
	c := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: "example.com/s"}}
	if change != nil {
		change(c)
	}
	return c
}

// byJoe sets the user to joe, who belongs to no groups.
func byJoe(a *admission.Attributes) *admission.Attributes {
	a.User = &request.User{Name: "joe"}
	return a
}

func TestCertificateRights(t *testing.T) {
	t.Parallel()
	const refused = `certificatesigningrequests.certificates.k8s.io "x" is forbidden: user not permitted to `
	other := csr(func(c *certificatesv1.CertificateSigningRequest) { c.Spec.SignerName = "mine.com/s" })
	issued := csr(func(c *certificatesv1.CertificateSigningRequest) { c.Status.Certificate = []byte("x") })
	failed := csr(func(c *certificatesv1.CertificateSigningRequest) {
		c.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: "Failed"}}
	})
	for name, test := range map[string]struct {
		rights         rights
		subresource    string
		csr            *certificatesv1.CertificateSigningRequest
		approve, issue string
	}{
		"the request itself":     {nil, "", issued, "", ""},
		"approval":               {nil, "approval", csr(nil), refused + `approve requests with signerName "example.com/s"`, ""},
		"approval with another":  {rights{"approve mine.com/s", "sign example.com/s"}, "approval", other, refused + `approve requests with signerName "example.com/s"`, ""},
		"approval by right":      {rights{"approve example.com/s"}, "approval", csr(nil), "", ""},
		"approval for a domain":  {rights{"approve example.com/*"}, "approval", csr(nil), "", ""},
		"a certificate":          {nil, "status", issued, "", refused + `sign requests with signerName "example.com/s"`},
		"a condition":            {rights{"approve example.com/s"}, "status", failed, "", refused + `sign requests with signerName "example.com/s"`},
		"a certificate by right": {rights{"sign example.com/s"}, "status", issued, "", ""},
		"nothing new":            {nil, "status", csr(func(c *certificatesv1.CertificateSigningRequest) { c.Labels = map[string]string{"a": "b"} }), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests := resource("certificates.k8s.io", "certificatesigningrequests", test.subresource)
			validated(t, plugin.CertificateApproval{Authorizer: test.rights}, byJoe(updating(requests, test.csr, csr(nil))), test.approve)
			validated(t, plugin.CertificateSigning{Authorizer: test.rights}, byJoe(updating(requests, test.csr, csr(nil))), test.issue)
		})
	}
}

func TestCertificateSubjectRestriction(t *testing.T) {
	t.Parallel()
	requests := resource("certificates.k8s.io", "certificatesigningrequests", "")
	const forbidden = `certificatesigningrequests.certificates.k8s.io "x" is forbidden: `
	for name, test := range map[string]struct{ signer, text, refusal string }{
		"masters":              {"kubernetes.io/kube-apiserver-client", newCSR(t, "a", "system:masters"), forbidden + "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"},
		"others":               {"kubernetes.io/kube-apiserver-client", newCSR(t, "a"), ""},
		"masters, elsewhere":   {"example.com/s", newCSR(t, "system:masters"), ""},
		"no request":           {"kubernetes.io/kube-apiserver-client", "x", forbidden + "failed to parse CSR: PEM block type must be CERTIFICATE REQUEST"},
		"no request elsewhere": {"example.com/s", "x", ""},
	} {
		c := csr(func(c *certificatesv1.CertificateSigningRequest) {
			c.Spec.SignerName, c.Spec.Request = test.signer, []byte(test.text)
		})
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			validated(t, plugin.CertificateSubjectRestriction{}, creating(requests, c), test.refusal)
		})
	}
}

// newCSR returns a PEM-encoded certificate request whose subject belongs to the given groups.
func newCSR(t *testing.T, groups ...string) string {
	t.Helper()
	return certificateRequest(t, pkix.Name{Organization: groups})
}

func certificateRequest(t *testing.T, subject pkix.Name) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestClusterTrustBundleAttest(t *testing.T) {
	t.Parallel()
	bundles := resource("certificates.k8s.io", "clustertrustbundles", "")
	const refused = `clustertrustbundles.certificates.k8s.io "x" is forbidden: user not permitted to attest for signerName "example.com/s"`
	bundle := func(signer, trust string) *certificatesv1.ClusterTrustBundle {
		return &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: trust}}
	}
	released := bundle("example.com/s", "a")
	released.Finalizers, released.OwnerReferences = []string{"a/b"}, []metav1.OwnerReference{{Name: "o"}}
	attest := plugin.ClusterTrustBundleAttest{Authorizer: rights{"sign example.com/s"}}
	validated(t, attest, byJoe(creating(bundles, bundle("", "a"))), "")
	validated(t, attest, byJoe(creating(bundles, bundle("example.com/s", "a"))), refused)
	validated(t, attest, byJoe(updating(bundles, bundle("example.com/s", "b"), bundle("example.com/s", "a"))), refused)
	validated(t, attest, byJoe(updating(bundles, released, bundle("example.com/s", "a"))), "")
	attest.Authorizer = rights{"attest example.com/s"}
	validated(t, attest, byJoe(creating(bundles, bundle("example.com/s", "a"))), "")
}
