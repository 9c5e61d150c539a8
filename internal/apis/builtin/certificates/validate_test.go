package certificates

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/apis/builtin/validation/validationtest"
	"mainstay.dev/mainstay/internal/feature"
)

// newKey creates a key of a type that pod certificate requests permit.
func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func stubOf(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return stub
}

// issue creates a self-signed certificate.
func issue(t *testing.T, key crypto.Signer, change func(*x509.Certificate)) []byte {
	t.Helper()
	now := time.Now().Truncate(time.Second)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: now, NotAfter: now.Add(2 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func asIs(*x509.Certificate) {}

type csr = certificatesv1.CertificateSigningRequest

func TestRequest(t *testing.T) {
	t.Parallel()
	request := block("CERTIFICATE REQUEST", stubOf(t, newKey(t)))
	valid := func() *csr {
		return &csr{Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: []byte(request), SignerName: "example.com/signer", Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		}}
	}
	signer := func(name string) func(*csr) { return func(r *csr) { r.Spec.SignerName = name } }
	validationtest.Rules[csr](validateRequest).Create(t, valid, []validationtest.Case[csr]{
		{Name: "text around", Change: func(r *csr) { r.Spec.Request = []byte("text\n" + request + "text") }},
		{Name: "another block", Change: func(r *csr) { r.Spec.Request = []byte(block("CERTIFICATE", nil)) }, Want: []string{"PEM block type must be CERTIFICATE REQUEST"}},
		{Name: "a key that takes long", Change: func(r *csr) {
			r.Spec.Request = []byte(block("CERTIFICATE REQUEST", longKeyRequest(t, 500_000)))
		}, Want: []string{"an RSA key may have at most 16384 bits"}},
		{Name: "no request", Change: func(r *csr) { r.Spec.Request = []byte(block("CERTIFICATE REQUEST", []byte("x"))) }, Want: []string{"spec.request: Invalid value"}},
		{Name: "shortest", Change: func(r *csr) { seconds := int32(600); r.Spec.ExpirationSeconds = &seconds }},
		{Name: "object below a namespace", Change: signer("example.com/namespace.name")},
		{Name: "one label", Change: signer("example/signer"), Want: []string{"spec.signerName: Invalid value: \"example\": should be a domain with at least two segments separated by dots"}},
		{Name: "bad label", Change: signer("Example.com/a"), Want: []string{`spec.signerName: Invalid value: "Example.com": validating label "Example"`}},
		{Name: "bad path", Change: signer("example.com/a..b"), Want: []string{`validating label ""`}},
		{Name: "two slashes", Change: signer("example.com/a/b"), Want: []string{"must be a fully qualified domain and path"}},
		{Name: "long domain", Change: signer(strings.Repeat("a.", 127) + "a/b"), Want: []string{"Too long: may not be more than 253 bytes"}},
		{Name: "longest", Change: signer(strings.Repeat("a.", 126) + "a/" + strings.Repeat("b.", 158) + "b")},
		{Name: "long", Change: signer(strings.Repeat("a.", 126) + "a/" + strings.Repeat("b.", 158) + "bb"), Want: []string{"Too long: may not be more than 571 bytes"}},
	})
	validationtest.Rules[csr](validateRequest).Update(t, func() *csr { return &csr{} }, nil) // a stored request of an older version
}

// longKeyRequest returns a request with an RSA key of size bytes. Its signature is arbitrary.
func longKeyRequest(t *testing.T, size int) []byte {
	t.Helper()
	number := bytes.Repeat([]byte{0xa5}, size)
	algorithm := func(last int) pkix.AlgorithmIdentifier {
		return pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, last}, Parameters: asn1.NullRawValue}
	}
	type publicKey struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	type request struct {
		Version    int
		Subject    pkix.RDNSequence
		Key        publicKey
		Attributes []asn1.RawValue `asn1:"tag:0"`
	}
	key := x509.MarshalPKCS1PublicKey(&rsa.PublicKey{N: new(big.Int).SetBytes(number), E: 1<<31 - 1})
	der, err := asn1.Marshal(struct {
		Request   request
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{
		request{Key: publicKey{algorithm(1), asn1.BitString{Bytes: key, BitLength: len(key) * 8}}}, algorithm(11),
		asn1.BitString{Bytes: number, BitLength: size * 8},
	})
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func decided(kinds ...certificatesv1.RequestConditionType) func(*csr) {
	return func(r *csr) {
		r.Status.Conditions = nil
		for _, kind := range kinds {
			r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: corev1.ConditionTrue})
		}
	}
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	const approved, denied, failed = certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed
	stored := func(kinds ...certificatesv1.RequestConditionType) func() *csr {
		return func() *csr {
			r := &csr{}
			decided(kinds...)(r)
			return r
		}
	}
	approval, status := validationtest.Rules[csr](validateApproval), validationtest.Rules[csr](validateRequestStatus)
	approval.Update(t, stored(), []validationtest.Case[csr]{
		{Name: "approved", Change: decided(approved)},
		{Name: "both", Change: decided(denied, approved), Want: []string{"must specify at most one of: `conditions[{\"type\": \"Approved\"}]`, `conditions[{\"type\": \"Denied\"}]`"}},
		{Name: "twice", Change: decided(denied, denied), Want: []string{"status.conditions[1].type: Duplicate value"}},
		{Name: "not approved", Change: func(r *csr) { decided(approved)(r); r.Status.Conditions[0].Status = corev1.ConditionFalse }, Want: []string{"status.conditions[0].status: Unsupported value: \"False\": supported values: \"True\""}},
		{Name: "others", Change: func(r *csr) { decided("X")(r); r.Status.Conditions[0].Status = corev1.ConditionFalse }},
	})
	approval.Update(t, stored(approved), []validationtest.Case[csr]{
		{Name: "denied", Change: decided(denied), Want: []string{"updates may not remove a condition of type \"Approved\""}},
		{Name: "failed too", Change: decided(approved, failed)},
	})
	status.Update(t, stored(), []validationtest.Case[csr]{
		{Name: "failed", Change: decided(failed)},
		{Name: "approved", Change: decided(approved), Want: []string{"updates may not add a condition of type \"Approved\""}},
	})
	status.Update(t, stored(failed), []validationtest.Case[csr]{
		{Name: "not failed", Change: decided(), Want: []string{"updates may not remove a condition of type \"Failed\""}},
	})
	status.Update(t, stored(approved, denied, "", ""), []validationtest.Case[csr]{ // stored before these rules existed
		{Name: "failed", Change: decided(approved, denied, "", "", failed)},
	})
}

func TestIssuedCertificate(t *testing.T) {
	t.Parallel()
	certificate := block(certificateBlock, issue(t, newKey(t), asIs))
	set := func(text string) func(*csr) { return func(r *csr) { r.Status.Certificate = []byte(text) } }
	rules := validationtest.Rules[csr](validateRequestStatus)
	rules.Update(t, func() *csr { return &csr{} }, []validationtest.Case[csr]{
		{Name: "chain", Change: set(certificate + "text\n" + certificate)},
		{Name: "key", Change: set(certificate + block("PRIVATE KEY", nil)), Want: []string{`only CERTIFICATE PEM blocks are allowed, found "PRIVATE KEY"`}},
		{Name: "nothing in it", Change: set(block(certificateBlock, nil)), Want: []string{"status.certificate: Invalid value: \"<certificate data>\""}},
		{Name: "headers", Change: set(strings.Replace(certificate, "-----\n", "-----\nA: b\n\n", 1)), Want: []string{"no PEM block headers are permitted"}},
	})
	rules.Update(t, func() *csr {
		r := &csr{}
		set(certificate)(r)
		return r
	}, []validationtest.Case[csr]{
		{Name: "another one", Change: set(certificate + certificate), Want: []string{"updates may not modify existing certificate content"}},
	})
}

func TestBundle(t *testing.T) {
	t.Parallel()
	type bundle = certificatesv1.ClusterTrustBundle
	anchor := block(certificateBlock, issue(t, newKey(t), asIs))
	leaf := block(certificateBlock, issue(t, newKey(t), func(c *x509.Certificate) { c.IsCA = false }))
	valid := func() *bundle { return &bundle{Spec: certificatesv1.ClusterTrustBundleSpec{TrustBundle: anchor}} }
	text := func(text string) func(*bundle) { return func(b *bundle) { b.Spec.TrustBundle = text } }
	rules := validationtest.Rules[bundle](validateBundle)
	rules.Create(t, valid, []validationtest.Case[bundle]{
		{Name: "none", Change: text("text"), Want: []string{"at least one trust anchor must be provided"}},
		{Name: "twice", Change: text(anchor + anchor), Want: []string{"duplicate trust anchor (indices [0 1])"}},
		{Name: "no authority", Change: text(anchor + leaf), Want: []string{"entry 1 does not have the CA bit set"}},
		{Name: "key", Change: text(block("PRIVATE KEY", nil)), Want: []string{"entry 0 has bad block type: PRIVATE KEY"}},
		{Name: "no certificate", Change: text(block(certificateBlock, []byte("x"))), Want: []string{"entry 0 does not parse as X.509"}},
		{Name: "large", Change: text(strings.Repeat(" ", maxBundle+1)), Want: []string{"spec.trustBundle: Too long"}},
	})
	rules.Update(t, func() *bundle {
		stored := valid()
		stored.Spec.TrustBundle = "of another release of Go"
		return stored
	}, []validationtest.Case[bundle]{
		{Name: "label", Change: func(b *bundle) { b.Labels = map[string]string{"a": "b"} }},
		{Name: "signer", Change: func(b *bundle) { b.Spec.SignerName = "example.com/s" }, Want: []string{"spec.signerName: Invalid value: \"example.com/s\": field is immutable"}},
	})
}

type podRequest = certificatesv1.PodCertificateRequest

func validPodRequest(t *testing.T, key crypto.Signer) func() *podRequest {
	t.Helper()
	stub := stubOf(t, key)
	return func() *podRequest {
		r := &podRequest{Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: "example.com/s", PodName: "p", PodUID: "1", ServiceAccountName: "a", ServiceAccountUID: "2", NodeName: "n", NodeUID: "3",
			StubPKCS10Request: stub,
		}}
		defaultPodRequest(r)
		return r
	}
}

func TestPodRequest(t *testing.T) {
	t.Parallel()
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	narrow, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	valid := validPodRequest(t, newKey(t))
	forged := valid().Spec.StubPKCS10Request
	forged = append(forged[:len(forged)-1:len(forged)-1], forged[len(forged)-1]^1)
	stub := func(stub []byte) func(*podRequest) { return func(r *podRequest) { r.Spec.StubPKCS10Request = stub } }
	expiration := func(signer string, seconds int32) func(*podRequest) {
		return func(r *podRequest) { r.Spec.SignerName, r.Spec.MaxExpirationSeconds = signer, &seconds }
	}
	rules := validationtest.Rules[podRequest](validatePodRequest)
	rules.Create(t, valid, []validationtest.Case[podRequest]{
		{Name: "longest", Change: expiration("example.com/s", 7862400)},
		{Name: "too long", Change: expiration("example.com/s", 7862401), Want: []string{"must be in the range [3600, 7862400]"}},
		{Name: "too long of Kubernetes", Change: expiration("x.kubernetes.io/s", 86401), Want: []string{"must be in the range [3600, 86400]"}},
		{Name: "Edwards", Change: stub(stubOf(t, edwards))},
		{Name: "weak", Change: stub(stubOf(t, weak)), Want: []string{`"2048-bit modulus": RSA keys must have modulus size 3072 or 4096`}},
		{Name: "narrow", Change: stub(stubOf(t, narrow)), Want: []string{`"curve P-224": elliptic public keys must use curve P256 or P384`}},
		{Name: "forged", Change: stub(forged), Want: []string{"spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR"}},
		{Name: "none", Change: stub(nil), Want: []string{"spec: Invalid value: exactly one of (stubPKCS10Request)"}},
		{Name: "long uid", Change: func(r *podRequest) { r.Spec.PodUID = types.UID(strings.Repeat("x", 129)) }, Want: []string{"spec.podUID: Too long: may not be more than 128 bytes"}},
		{Name: "no domain", Change: func(r *podRequest) { r.Spec.UnverifiedUserAnnotations = map[string]string{"a": "b"} }, Want: []string{"must be a domain-prefixed key"}},
	})
	rules.Update(t, valid, []validationtest.Case[podRequest]{
		{Name: "pod", Change: func(r *podRequest) { r.Spec.PodName = "q" }, Want: []string{"field is immutable"}},
	})
}

// ended returns a function that adds conditions to a request.
func ended(kinds ...string) func(*podRequest) {
	return func(r *podRequest) {
		for _, kind := range kinds {
			r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{
				Type: kind, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now(),
			})
		}
	}
}

func TestPodRequestEnds(t *testing.T) {
	t.Parallel()
	const issued, denied, failed = certificatesv1.PodCertificateRequestConditionTypeIssued,
		certificatesv1.PodCertificateRequestConditionTypeDenied, certificatesv1.PodCertificateRequestConditionTypeFailed
	valid := validPodRequest(t, newKey(t))
	rules := validationtest.Rules[podRequest](validatePodRequestStatus)
	rules.Update(t, valid, []validationtest.Case[podRequest]{
		{Name: "denied", Change: ended(denied)},
		{Name: "failed with a chain", Change: func(r *podRequest) { ended(failed)(r); r.Status.CertificateChain = "x" }, Want: []string{"non-condition status fields must be empty"}},
		{Name: "both", Change: ended(denied, failed), Want: []string{`status.conditions.[1].type: Invalid value: "Failed": There may be at most one condition`}},
		{Name: "another", Change: ended("X"), Want: []string{`status.conditions.[0].type: Unsupported value: "X": supported values: "Issued", "Denied", "Failed"`}},
		{Name: "a chain alone", Change: func(r *podRequest) { r.Status.CertificateChain = "x" }, Want: []string{"status is immutable unless transitioning"}},
		{Name: "issued without a chain", Change: ended(issued), Want: []string{"issued certificate chain must contain at least one certificate"}},
	})
	rules.Update(t, func() *podRequest {
		r := valid()
		ended(denied)(r)
		return r
	}, []validationtest.Case[podRequest]{
		{Name: "again", Change: func(r *podRequest) { r.Status.Conditions[0].Message = "x" }, Want: []string{"immutable after PodCertificateRequest is issued, denied, or failed"}},
	})
}

func TestPodCertificate(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	valid := validPodRequest(t, key)
	for _, test := range []struct {
		name   string
		leaf   func(*x509.Certificate)
		key    crypto.Signer // nil selects the key of the request
		status func(*certificatesv1.PodCertificateRequestStatus)
		want   []string
	}{
		{name: "valid"},
		{name: "another key", key: newKey(t), want: []string{"leaf certificate was not issued to the requested public key"}},
		{name: "names", leaf: func(c *x509.Certificate) { c.DNSNames = []string{"a.example.com", ".b"} }, want: []string{"should not start or end with '.'"}},
		{name: "short", leaf: func(c *x509.Certificate) { c.NotAfter = c.NotBefore.Add(59 * time.Minute) }, want: []string{"leaf certificate lifetime must be >= 1 hour"}},
		{name: "long", leaf: func(c *x509.Certificate) { c.NotAfter = c.NotBefore.Add(25 * time.Hour) }, want: []string{"leaf certificate lifetime must be <= spec.maxExpirationSeconds (86400)"}},
		{name: "old", leaf: func(c *x509.Certificate) { c.NotBefore = c.NotBefore.Add(-10 * time.Minute) }, want: []string{"must be set to within 5 minutes of kube-apiserver's current time"}},
		{name: "no times", status: func(s *certificatesv1.PodCertificateRequestStatus) {
			s.NotBefore, s.NotAfter, s.BeginRefreshAt = nil, nil, nil
		},
			want: []string{"status.notBefore: Required", "status.notAfter: Required", "status.beginRefreshAt: Required"}},
		{name: "other begin", status: func(s *certificatesv1.PodCertificateRequestStatus) { s.NotBefore.Time = s.NotBefore.Add(time.Second) }, want: []string{"must be set to the NotBefore time"}},
		{name: "early", status: func(s *certificatesv1.PodCertificateRequestStatus) {
			s.BeginRefreshAt.Time = s.NotBefore.Add(9 * time.Minute)
		}, want: []string{"must be at least 10 minutes after status.notBefore"}},
		{name: "late", status: func(s *certificatesv1.PodCertificateRequestStatus) { s.BeginRefreshAt.Time = s.NotAfter.Time }, want: []string{"must be at least 10 minutes before status.notAfter"}},
		{name: "key after it", status: func(s *certificatesv1.PodCertificateRequestStatus) { s.CertificateChain += block("PRIVATE KEY", nil) }, want: []string{"must consist entirely of CERTFICATE PEM blocks"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.leaf == nil {
				test.leaf = asIs
			}
			if test.key == nil {
				test.key = key
			}
			der := issue(t, test.key, test.leaf)
			leaf, err := x509.ParseCertificate(der)
			if err != nil {
				t.Fatal(err)
			}
			r := valid()
			ended(certificatesv1.PodCertificateRequestConditionTypeIssued)(r)
			begin, end, refresh := metav1.NewTime(leaf.NotBefore), metav1.NewTime(leaf.NotAfter), metav1.NewTime(leaf.NotBefore.Add(30*time.Minute))
			r.Status.CertificateChain = block(certificateBlock, der)
			r.Status.NotBefore, r.Status.NotAfter, r.Status.BeginRefreshAt = &begin, &end, &refresh
			if test.status != nil {
				test.status(&r.Status)
			}
			got := validationtest.Errors(t, feature.Defaults(), func(f validation.Field) { validatePodRequestStatus(f, r, valid()) })
			if len(got) != len(test.want) {
				t.Fatalf("%q, want %q", got, test.want)
			}
			for i := range got {
				if !strings.Contains(got[i], test.want[i]) {
					t.Errorf("%q, want %q", got[i], test.want[i])
				}
			}
		})
	}
}
