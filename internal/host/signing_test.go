package host

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/host/pki"
	"mainstay.dev/mainstay/test/testserver"
)

const signingRequests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// requestCertificate creates a CertificateSigningRequest and returns the private key.
func (r *running) requestCertificate(t *testing.T, name, signer string, subject pkix.Name, usage certificatesv1.KeyUsage, header ...string) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	if err != nil {
		t.Fatal(err)
	}
	csr := certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.CertificateSigningRequestSpec{
		Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: signer, Usages: []certificatesv1.KeyUsage{usage, "digital signature"},
	}}
	body, err := json.Marshal(csr)
	if err != nil {
		t.Fatal(err)
	}
	if got := exchange(t, r.admin, "POST", r.URL+signingRequests, string(body), nil, header...); got != "201" {
		t.Fatalf("create the CertificateSigningRequest %s: %s", name, got)
	}
	return key
}

// decide adds a condition with the given update time to a CertificateSigningRequest.
func (r *running) decide(t *testing.T, name string, kind certificatesv1.RequestConditionType, at time.Time) {
	t.Helper()
	var csr certificatesv1.CertificateSigningRequest
	r.read(t, signingRequests+"/"+name, &csr)
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: "True", Reason: "Test", LastUpdateTime: metav1.NewTime(at)})
	body, err := json.Marshal(csr)
	if err != nil {
		t.Fatal(err)
	}
	if code, answer := r.do(t, "PUT", signingRequests+"/"+name+"/approval", string(body)); code != 200 {
		t.Fatalf("set condition of %s: %d %s", name, code, answer)
	}
}

// awaitRequest waits until fits returns true for the status of a CertificateSigningRequest, and returns the
// status.
func (r *running) awaitRequest(t *testing.T, name string, fits func(*certificatesv1.CertificateSigningRequestStatus) bool) certificatesv1.CertificateSigningRequestStatus {
	t.Helper()
	var csr certificatesv1.CertificateSigningRequest
	testserver.Eventually(t, time.Minute, func() error {
		csr = certificatesv1.CertificateSigningRequest{}
		r.read(t, signingRequests+"/"+name, &csr)
		if !fits(&csr.Status) {
			return fmt.Errorf("%s is %+v", name, csr.Status)
		}
		return nil
	})
	return csr.Status
}

func isIssued(s *certificatesv1.CertificateSigningRequestStatus) bool { return len(s.Certificate) > 0 }

// credential returns an issued certificate with its key, for use by a client.
func credential(t *testing.T, certificate []byte, key *ecdsa.PrivateKey) tls.Certificate {
	t.Helper()
	block, _ := pem.Decode(certificate)
	if block == nil {
		t.Fatalf("the certificate is %q", certificate)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key, Leaf: leaf}
}

// TestCertificates checks that the server's own CA signs approved requests, that the certificates are valid
// credentials, that requests of nodes are approved, and that old requests are deleted.
func TestCertificates(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	now, long := time.Now(), time.Now().Add(-2*time.Hour)
	jane := pkix.Name{CommonName: "jane", Organization: []string{"devs"}}
	node := pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}

	key := s.requestCertificate(t, "jane", certificatesv1.KubeAPIServerClientSignerName, jane, "client auth")
	s.requestCertificate(t, "refused", certificatesv1.KubeAPIServerClientSignerName, jane, "server auth")
	s.requestCertificate(t, "denied", certificatesv1.KubeAPIServerClientSignerName, jane, "client auth")
	s.requestCertificate(t, "others", "example.com/signer", jane, "client auth")
	s.decide(t, "others", certificatesv1.CertificateApproved, now)
	s.decide(t, "denied", certificatesv1.CertificateDenied, long)
	s.decide(t, "refused", certificatesv1.CertificateApproved, now)
	s.decide(t, "jane", certificatesv1.CertificateApproved, now)

	status := s.awaitRequest(t, "jane", isIssued)
	var self authenticationv1.SelfSubjectReview
	certificate := credential(t, status.Certificate, key)
	exchange(t, as(t, certificate), "POST", s.URL+"/apis/authentication.k8s.io/v1/selfsubjectreviews", `{}`, &self)
	if user := self.Status.UserInfo; user.Username != "jane" || user.Groups[0] != "devs" {
		t.Errorf("the user of the certificate is %+v", user)
	}
	if lasts := certificate.Leaf.NotAfter.Sub(certificate.Leaf.NotBefore); lasts != 365*24*time.Hour {
		t.Errorf("the certificate is valid for %v", lasts)
	}

	status = s.awaitRequest(t, "refused", func(s *certificatesv1.CertificateSigningRequestStatus) bool { return len(s.Conditions) == 2 })
	if c := status.Conditions[1]; c.Type != "Failed" || c.Status != "True" || c.Reason != "SignerValidationFailure" || c.Message != "invalid usage for client certificate: server auth" || c.LastUpdateTime.IsZero() {
		t.Errorf("the failed request has the condition %+v", c)
	}
	s.awaitCode(t, signingRequests+"/denied", 404)

	allow := func(role string) {
		s.create(t, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"generateName":"joins-"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"joins"}],
			"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"`+role+`"}}`)
	}
	allow("system:node-bootstrapper")
	s.requestCertificate(t, "early", certificatesv1.KubeAPIServerClientKubeletSignerName, node, "client auth", "Impersonate-User", "joins")
	allow("system:certificates.k8s.io:certificatesigningrequests:nodeclient")
	status = s.awaitRequest(t, "early", isIssued) // the signer has retried
	if c := status.Conditions[0]; c.Type != "Approved" || c.Reason != "AutoApproved" || c.Message != "Auto approving kubelet client certificate after SubjectAccessReview." {
		t.Errorf("the approved request has the condition %+v", c)
	}
	if untouched := s.awaitRequest(t, "others", func(*certificatesv1.CertificateSigningRequestStatus) bool { return true }); len(untouched.Certificate) > 0 || len(untouched.Conditions) != 1 {
		t.Errorf("a request to a signer of another component is %+v", untouched)
	}
}

// TestSigningFiles checks that each CA that the flags configure signs only for its signer, and that the files
// of the CA are reloaded.
func TestSigningFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pair := KeyPairFiles{CertFile: filepath.Join(dir, "ca.crt"), KeyFile: filepath.Join(dir, "ca.key")}
	put := func() *x509.CertPool {
		from := t.TempDir()
		authority, err := pki.Open(from)
		if err != nil {
			t.Fatal(err)
		}
		for name, to := range map[string]string{"ca.crt": pair.CertFile, "ca.key": pair.KeyFile} {
			data, err := os.ReadFile(filepath.Join(from, name))
			if err != nil {
				t.Fatal(err)
			}
			write(t, to, string(data))
		}
		return authority.Pool()
	}
	pool := put()
	config := Config{Signing: SigningConfig{APIServerClient: pair}}
	config.ControlPlane.Controllers.ClusterSigningDuration = time.Hour
	s := start(t, config)
	jane := pkix.Name{CommonName: "jane"}
	// signed returns an error unless the authority in pool signs a new request.
	signed := func(name string, pool *x509.CertPool) error {
		key := s.requestCertificate(t, name, certificatesv1.KubeAPIServerClientSignerName, jane, "client auth")
		s.decide(t, name, certificatesv1.CertificateApproved, time.Now())
		leaf := credential(t, s.awaitRequest(t, name, isIssued).Certificate, key).Leaf
		if lasts := leaf.NotAfter.Sub(leaf.NotBefore); lasts != time.Hour+5*time.Minute {
			t.Errorf("the certificate is valid for %v", lasts)
		}
		_, err := leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		return err
	}
	s.requestCertificate(t, "node", certificatesv1.KubeAPIServerClientKubeletSignerName, jane, "client auth")
	s.decide(t, "node", certificatesv1.CertificateApproved, time.Now())
	if err := signed("first", pool); err != nil {
		t.Error(err)
	}
	pool, n := put(), 0
	testserver.Eventually(t, time.Minute, func() error { n++; return signed(fmt.Sprint("next", n), pool) })
	if nobody := s.awaitRequest(t, "node", func(*certificatesv1.CertificateSigningRequestStatus) bool { return true }); len(nobody.Certificate) > 0 || len(nobody.Conditions) != 1 {
		t.Errorf("a request to a signer without an authority is %+v", nobody)
	}
}

// TestSigningProblems checks that errors name the invalid flags.
func TestSigningProblems(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority, err := pki.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := authority.Client("jane", "jane"); err != nil {
		t.Fatal(err)
	}
	files := func(name string) KeyPairFiles {
		return KeyPairFiles{CertFile: filepath.Join(dir, name+".crt"), KeyFile: filepath.Join(dir, name+".key")}
	}
	two := files("ca")
	two.CertFile = writeFile(t, "two.crt", strings.Repeat(string(authority.Bundle()), 2))
	for want, signing := range map[string]SigningConfig{
		"--cluster-signing-cert-file and --cluster-signing-key-file must be given together":                                               {All: KeyPairFiles{CertFile: "a"}},
		"--cluster-signing-kubelet-client-cert-file and --cluster-signing-kubelet-client-key-file must be given together":                 {KubeletClient: KeyPairFiles{KeyFile: "a"}},
		"--cluster-signing-cert-file, which is for all signers, cannot be given together with --cluster-signing-legacy-unknown-cert-file": {All: files("ca"), LegacyUnknown: files("ca")},
		"read --cluster-signing-cert-file: open":  {All: files("none")},
		"the certificate is not a CA certificate": {All: files("jane")},
		"expected 1 certificate, found 2":         {KubeletServing: two},
		"read --cluster-signing-cert-file: " + files("ca").CertFile + ": with the key " + files("jane").KeyFile: {All: KeyPairFiles{files("ca").CertFile, files("jane").KeyFile}},
	} {
		h, err := New(Config{Storage: StorageConfig{InMemory: true}, Listen: ListenConfig{SecurePort: AnyPort}, Signing: signing})
		if err == nil {
			err = h.Run(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
