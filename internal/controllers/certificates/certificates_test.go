package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	clientAuth = certificatesv1.UsageClientAuth
	serverAuth = certificatesv1.UsageServerAuth
	signature  = certificatesv1.UsageDigitalSignature
	encipher   = certificatesv1.UsageKeyEncipherment
)

// TestRules checks the requests that each signer accepts, and the messages for rejected requests.
func TestRules(t *testing.T) {
	t.Parallel()
	node := pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}
	client := func(change func(*x509.CertificateRequest)) *x509.CertificateRequest {
		r := &x509.CertificateRequest{Subject: node}
		change(r)
		return r
	}
	serving := func(change func(*x509.CertificateRequest)) *x509.CertificateRequest {
		r := &x509.CertificateRequest{Subject: node, DNSNames: []string{"n"}, IPAddresses: []net.IP{{10, 0, 0, 1}}}
		change(r)
		return r
	}
	same := func(*x509.CertificateRequest) {}
	kubelet, server := certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName
	type usages = []certificatesv1.KeyUsage
	for name, test := range map[string]struct {
		signer string
		req    *x509.CertificateRequest
		usages usages
		want   string
	}{
		"client":                         {certificatesv1.KubeAPIServerClientSignerName, client(same), usages{clientAuth, encipher, signature}, ""},
		"client for servers":             {certificatesv1.KubeAPIServerClientSignerName, client(same), usages{clientAuth, serverAuth}, "invalid usage for client certificate: server auth"},
		"client for nothing":             {certificatesv1.KubeAPIServerClientSignerName, client(same), usages{signature}, "missing required usage for client certificate: client auth"},
		"legacy":                         {legacyUnknown, client(same), usages{certificatesv1.UsageAny}, ""},
		"kubelet":                        {kubelet, client(same), usages{signature, clientAuth}, ""},
		"kubelet with RSA":               {kubelet, client(same), usages{clientAuth, encipher, signature}, ""},
		"kubelet for more":               {kubelet, client(same), usages{clientAuth, serverAuth, signature}, "usages did not match [client auth digital signature key encipherment]"},
		"kubelet of others":              {kubelet, client(func(r *x509.CertificateRequest) { r.Subject.Organization = append(node.Organization, "x") }), usages{signature, clientAuth}, "subject organization is not system:nodes"},
		"kubelet that is a user":         {kubelet, client(func(r *x509.CertificateRequest) { r.Subject.CommonName = "jane" }), usages{signature, clientAuth}, "subject common name does not begin with system:node:"},
		"kubelet with a name":            {kubelet, client(func(r *x509.CertificateRequest) { r.DNSNames = []string{"n"} }), usages{signature, clientAuth}, "DNS subjectAltNames are not allowed"},
		"kubelet with an address":        {kubelet, client(func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{{1, 1, 1, 1}} }), usages{signature, clientAuth}, "IP subjectAltNames are not allowed"},
		"kubelet with mail":              {kubelet, client(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@b"} }), usages{signature, clientAuth}, "Email subjectAltNames are not allowed"},
		"kubelet with a URI":             {kubelet, client(func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{}} }), usages{signature, clientAuth}, "URI subjectAltNames are not allowed"},
		"serving":                        {server, serving(same), usages{signature, serverAuth}, ""},
		"serving for clients":            {server, serving(same), usages{signature, clientAuth}, "usages did not match [digital signature key encipherment server auth]"},
		"serving of others":              {server, serving(func(r *x509.CertificateRequest) { r.Subject.Organization = nil }), usages{signature, serverAuth}, "subject organization is not system:nodes"},
		"serving of a user":              {server, serving(func(r *x509.CertificateRequest) { r.Subject.CommonName = "jane" }), usages{signature, serverAuth}, "subject common name does not begin with system:node:"},
		"serving at no name and address": {server, client(same), usages{signature, serverAuth}, "DNS or IP subjectAltName is required"},
		"serving with a URI":             {server, serving(func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{}} }), usages{signature, serverAuth}, "URI subjectAltNames are not allowed"},
		"serving with mail":              {server, serving(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@b"} }), usages{signature, serverAuth}, "Email subjectAltNames are not allowed"},
	} {
		got := ""
		if err := checkOf(test.signer)(test.req, test.usages); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	if checkOf("example.com/mine") != nil {
		t.Error("checkOf returned a check for an unknown signer")
	}
}

func TestLifetime(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		req  *int32
		want time.Duration
	}{{nil, time.Hour}, {new(int32(1)), 10 * time.Minute}, {new(int32(1200)), 20 * time.Minute}, {new(int32(7200)), time.Hour}} {
		if got := lifetime(test.req, time.Hour); got != test.want {
			t.Errorf("%v: %v, want %v", test.req, got, test.want)
		}
	}
}

// TestPeriod checks that the validity of a certificate begins before the time of issue, and does not end after
// that of its authority.
func TestPeriod(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	for name, test := range map[string]struct {
		lifetime, authority, want time.Duration
	}{
		"short":           {time.Hour, 24 * time.Hour, time.Hour},
		"long":            {12 * time.Hour, 24 * time.Hour, 12*time.Hour - 5*time.Minute},
		"authority ends":  {48 * time.Hour, 24 * time.Hour, 24 * time.Hour},
		"authority ended": {time.Hour, 0, 0},
	} {
		certificate := &x509.Certificate{}
		err := setPeriod(certificate, now, test.lifetime, now.Add(test.authority))
		if test.want == 0 {
			if err == nil || !strings.Contains(err.Error(), "the signer has expired") {
				t.Errorf("%s: error %v, want one for the expired signer", name, err)
			}
			continue
		}
		if err != nil || !certificate.NotAfter.Equal(now.Add(test.want)) || !certificate.NotBefore.Equal(now.Add(-5*time.Minute)) {
			t.Errorf("%s: %v, from %v to %v", name, err, certificate.NotBefore, certificate.NotAfter)
		}
	}
}

// authority returns a self-signed CA certificate and its key.
func authority(t *testing.T) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(100 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// newRequest returns a request that is signed with its own key.
func newRequest(t *testing.T, template *x509.CertificateRequest) *x509.CertificateRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	r, err := x509.ParseCertificateRequest(der)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestIssue checks that a certificate has the requested names and usages, but none of the extensions that the
// encoded request contains. In particular, the certificate is not a CA.
func TestIssue(t *testing.T) {
	t.Parallel()
	ca := authority(t)
	basic := pkix.Extension{Id: []int{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}} // CA:TRUE
	r := newRequest(t, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "jane", Organization: []string{"devs"}}, DNSNames: []string{"a.example.com"}, ExtraExtensions: []pkix.Extension{basic},
	})
	text, err := issue(ca, r, []certificatesv1.KeyUsage{certificatesv1.UsageSMIME, clientAuth, encipher, signature, certificatesv1.UsageEmailProtection}, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	block, rest := pem.Decode(text)
	if block == nil || len(rest) > 0 {
		t.Fatalf("got %s, want one PEM block", text)
	}
	got, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.CheckSignatureFrom(ca.Leaf); err != nil {
		t.Error(err)
	}
	if got.IsCA || got.KeyUsage != x509.KeyUsageDigitalSignature|x509.KeyUsageKeyEncipherment || got.Subject.CommonName != "jane" ||
		len(got.Subject.Organization) != 1 || len(got.DNSNames) != 1 || got.SerialNumber.BitLen() < 32 ||
		len(got.ExtKeyUsage) != 2 || got.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth || got.ExtKeyUsage[1] != x509.ExtKeyUsageEmailProtection {
		t.Errorf("got %+v", got)
	}
	if _, err := issue(ca, r, []certificatesv1.KeyUsage{"flying"}, time.Now(), time.Hour); err == nil || !strings.Contains(err.Error(), `unrecognized usage values: ["flying"]`) {
		t.Errorf("unknown usage: %v", err)
	}
	r.Signature[len(r.Signature)-1]++
	if _, err := issue(ca, r, nil, time.Now(), time.Hour); err == nil {
		t.Error("a request with an invalid signature was accepted")
	}
}

// TestUsages checks that all usages that the API defines are supported.
func TestUsages(t *testing.T) {
	t.Parallel()
	all := []certificatesv1.KeyUsage{
		certificatesv1.UsageSigning, certificatesv1.UsageDigitalSignature, certificatesv1.UsageContentCommitment, certificatesv1.UsageKeyEncipherment,
		certificatesv1.UsageKeyAgreement, certificatesv1.UsageDataEncipherment, certificatesv1.UsageCertSign, certificatesv1.UsageCRLSign,
		certificatesv1.UsageEncipherOnly, certificatesv1.UsageDecipherOnly, certificatesv1.UsageAny, certificatesv1.UsageServerAuth,
		certificatesv1.UsageClientAuth, certificatesv1.UsageCodeSigning, certificatesv1.UsageEmailProtection, certificatesv1.UsageSMIME,
		certificatesv1.UsageIPsecEndSystem, certificatesv1.UsageIPsecTunnel, certificatesv1.UsageIPsecUser, certificatesv1.UsageTimestamping,
		certificatesv1.UsageOCSPSigning, certificatesv1.UsageMicrosoftSGC, certificatesv1.UsageNetscapeSGC,
	}
	certificate := &x509.Certificate{}
	if err := setUsages(certificate, all); err != nil {
		t.Fatal(err)
	}
	if certificate.KeyUsage != 1<<9-1 || len(certificate.ExtKeyUsage) != 12 {
		t.Errorf("got %b and %v", certificate.KeyUsage, certificate.ExtKeyUsage)
	}
}

// TestExpiry checks when requests are deleted.
func TestExpiry(t *testing.T) {
	t.Parallel()
	created := time.Unix(1_800_000_000, 0)
	decided := created.Add(time.Minute)
	ca := authority(t)
	issued := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Certificate[0]})
	type kind = certificatesv1.RequestConditionType
	for name, test := range map[string]struct {
		conditions  []kind
		certificate []byte
		at          time.Time // of the conditions
		want        time.Time
	}{
		"pending":                          {nil, nil, decided, created.Add(24 * time.Hour)},
		"denied":                           {[]kind{certificatesv1.CertificateDenied}, nil, decided, decided.Add(time.Hour)},
		"approved":                         {[]kind{certificatesv1.CertificateApproved}, nil, decided, decided.Add(24 * time.Hour)},
		"failed":                           {[]kind{certificatesv1.CertificateApproved, certificatesv1.CertificateFailed}, nil, decided, decided.Add(time.Hour)},
		"issued":                           {[]kind{certificatesv1.CertificateApproved}, issued, created.AddDate(-10, 0, 0), created.AddDate(-10, 0, 0).Add(time.Hour)},
		"issued, expired":                  {[]kind{certificatesv1.CertificateApproved}, issued, created.AddDate(20, 0, 0), ca.Leaf.NotAfter},
		"invalid certificate":              {[]kind{certificatesv1.CertificateApproved}, []byte("x"), decided, decided.Add(time.Hour)},
		"denied, unknown time":             {[]kind{certificatesv1.CertificateDenied}, nil, time.Time{}, time.Time{}},
		"unknown condition":                {[]kind{"Odd"}, nil, decided, time.Time{}},
		"issued, unknown time":             {[]kind{certificatesv1.CertificateApproved}, issued, time.Time{}, ca.Leaf.NotAfter},
		"approved, and denied in the past": {[]kind{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied}, nil, decided, decided.Add(time.Hour)},
	} {
		csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}}
		csr.Status.Certificate = test.certificate
		for _, c := range test.conditions {
			csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: c, LastUpdateTime: metav1.NewTime(test.at)})
		}
		if got := expiry(csr); !got.Equal(test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
