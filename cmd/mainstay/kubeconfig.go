package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/egress/kubeconfig"
	"mainstay.dev/mainstay/internal/host"
	"mainstay.dev/mainstay/internal/host/pki"
	"mainstay.dev/mainstay/internal/request"
)

// defaultTTL is the default lifetime of credentials. minTTL is the minimum lifetime that
// CertificateSigningRequests and TokenRequests can specify.
const (
	defaultTTL = 30 * 24 * time.Hour
	minTTL     = 10 * time.Minute
	// maxRequestTTL is the maximum lifetime that a CertificateSigningRequest can specify, as an int32 in
	// seconds.
	maxRequestTTL = math.MaxInt32 * time.Second
)

// credentials contains the flags of "mainstay kubeconfig".
type credentials struct {
	user, account       string
	groups              []string
	ttl                 time.Duration
	dataDir, kubeconfig string
	// dataDirSet reports whether the command line specifies the data directory.
	dataDirSet bool
	output     string
}

func newKubeconfig(signals <-chan os.Signal) *cobra.Command {
	var k credentials
	command := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Create a kubeconfig for a user or a service account",
		Long: `Create a kubeconfig for a server.

A user gets a client certificate. It is signed by the CA in the data directory, whether
or not the server is running. With --kubeconfig, it is issued for a
CertificateSigningRequest, which the command creates and approves; the cluster then
needs a signer such as kube-controller-manager's. Certificates cannot be revoked; the
permissions of their user can.

A service account gets a token from a running server. The token becomes invalid when
the account is deleted.`,
		Example: `  mainstay kubeconfig --user=jane --group=devs --output=jane.kubeconfig
  mainstay kubeconfig --serviceaccount=shop/bot --ttl=24h --kubeconfig=admin.kubeconfig`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := k.check(); err != nil {
				return &usageError{err}
			}
			k.dataDirSet = c.Flags().Changed("data-dir")
			ctx, stop := untilSignal(signals)
			defer stop()
			entry, err := k.create(ctx)
			if err != nil {
				return err
			}
			if k.output == "" {
				_, err = c.OutOrStdout().Write(entry.Text())
				return err
			}
			return writeCredentials(k.output, entry.Text())
		},
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&k.user, "user", "", "user name")
	flags.StringArrayVar(&k.groups, "group", nil, "group of the user; may be repeated")
	flags.StringVar(&k.account, "serviceaccount", "", "NAMESPACE/NAME of a service account, instead of a user")
	flags.DurationVar(&k.ttl, "ttl", defaultTTL, "lifetime of the credentials")
	flags.StringVar(&k.dataDir, "data-dir", "./"+host.DefaultDataDir, "data directory of the server")
	flags.StringVar(&k.kubeconfig, "kubeconfig", "", "kubeconfig of a running server, instead of its data directory (default: $KUBECONFIG, if --data-dir is not set and its default does not exist)")
	flags.StringVar(&k.output, "output", "", "file to write, readable only by its owner (default: standard output)")
	return command
}

// writeCredentials creates or replaces a file that only its owner can read. If the path is a symbolic link, it
// replaces the file to which the link points. It does not replace a pipe or a device, such as /dev/stdout, but
// writes to it.
func writeCredentials(file string, text []byte) error {
	info, err := os.Stat(file)
	switch {
	case err != nil: // the file does not exist, or WriteFile reports the error
	case info.IsDir():
		return fmt.Errorf("write %s: it is a directory", file)
	case !info.Mode().IsRegular():
		out, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = out.Write(text)
		return errors.Join(err, out.Close())
	default:
		if file, err = filepath.EvalSymlinks(file); err != nil {
			return err
		}
	}
	return pki.WriteFile(file, text, 0o600)
}

func (k *credentials) check() error {
	switch namespace, name, ok := strings.Cut(k.account, "/"); {
	case (k.user == "") == (k.account == ""):
		return errors.New("exactly one of --user and --serviceaccount is required")
	case k.account != "" && (!ok || namespace == "" || name == "" || strings.Contains(name, "/")):
		return fmt.Errorf("--serviceaccount is %q; it must be NAMESPACE/NAME", k.account)
	case k.account != "" && len(k.groups) > 0:
		return errors.New("--group requires --user")
	case k.ttl < minTTL:
		return fmt.Errorf("--ttl is %s; it must be at least %s", k.ttl, minTTL)
	}
	return nil
}

// adminKubeconfig returns the path of the administrator's kubeconfig: the value of --kubeconfig, the file in
// the data directory if it exists, or $KUBECONFIG unless --data-dir is set. If it uses $KUBECONFIG, it stores
// the path in k.kubeconfig.
func (k *credentials) adminKubeconfig() (string, error) {
	if k.kubeconfig != "" {
		return k.kubeconfig, nil
	}
	file := filepath.Join(k.dataDir, "admin.kubeconfig")
	_, err := os.Stat(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, nil
	}
	if !k.dataDirSet { // with --data-dir, $KUBECONFIG might name a different server
		k.kubeconfig = environmentKubeconfig()
	}
	if k.kubeconfig == "" {
		return "", fmt.Errorf("no data directory of a server at %s; specify one with --data-dir, or a running server with --kubeconfig or $KUBECONFIG", k.dataDir)
	}
	return k.kubeconfig, nil
}

// create creates the credentials and returns them as an entry of a kubeconfig.
func (k *credentials) create(ctx context.Context) (*kubeconfig.Entry, error) {
	file, err := k.adminKubeconfig()
	if err != nil {
		return nil, err
	}
	entry := &kubeconfig.Entry{User: k.user}
	if entry.Server, entry.CA, err = kubeconfig.Cluster(file); err != nil {
		return nil, err
	}
	if k.user != "" && k.kubeconfig == "" {
		entry.Certificate, entry.Key, err = k.issue()
		return entry, err
	}
	client, err := newAPIClient(file)
	if err != nil {
		return nil, err
	}
	if k.account == "" {
		entry.Certificate, entry.Key, err = k.sign(ctx, client)
		return entry, err
	}
	namespace, name, _ := strings.Cut(k.account, "/")
	entry.User, entry.Namespace = request.ServiceAccountUser(namespace, name), namespace
	entry.Token, err = k.token(ctx, client, namespace, name)
	return entry, err
}

// issue signs a certificate with the CA in the data directory.
func (k *credentials) issue() (certificate, key []byte, err error) {
	authority, err := pki.OpenExisting(filepath.Join(k.dataDir, "pki"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("no CA in %s; start a server there first, or specify a running one with --kubeconfig: %w", k.dataDir, err)
	}
	if err != nil {
		return nil, nil, err
	}
	return authority.Issue(k.ttl, k.user, k.groups...)
}

func (k *credentials) token(ctx context.Context, client *apiClient, namespace, name string) (string, error) {
	seconds := int64(k.ttl.Seconds())
	tokenRequest := authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	var created authenticationv1.TokenRequest
	err := client.do(ctx, http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+name+"/token", &tokenRequest, &created)
	return created.Status.Token, err
}

// requestsPath is the URL path of CertificateSigningRequests. signerTimeout is the maximum time to wait for the
// signer; signerPeriod is the polling interval.
const (
	requestsPath  = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	signerTimeout = 30 * time.Second
	signerPeriod  = 500 * time.Millisecond
)

// sign requests a certificate from the cluster. It creates and approves a CertificateSigningRequest, and
// waits for the signer. It always deletes the request.
func (k *credentials) sign(ctx context.Context, client *apiClient) (certificate, key []byte, err error) {
	if k.ttl > maxRequestTTL {
		return nil, nil, &usageError{fmt.Errorf("--ttl is %s; it must be at most %s, the maximum of a CertificateSigningRequest", k.ttl, maxRequestTTL)}
	}
	key, text, err := k.certificateRequest()
	if err != nil {
		return nil, nil, err
	}
	seconds := int32(k.ttl.Seconds())
	csr := certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
		Request: text, SignerName: certificatesv1.KubeAPIServerClientSignerName, ExpirationSeconds: &seconds,
		Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
	}}
	csr.GenerateName = "mainstay-kubeconfig-"
	if err := client.do(ctx, http.MethodPost, requestsPath, &csr, &csr); err != nil {
		return nil, nil, err
	}
	at := requestsPath + "/" + csr.Name
	defer func() {
		deleteErr := client.do(context.WithoutCancel(ctx), http.MethodDelete, at, nil, &metav1.Status{})
		err = errors.Join(err, deleteErr)
	}()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "MainstayKubeconfig", Message: "created and approved by mainstay kubeconfig",
	})
	if err := client.do(ctx, http.MethodPut, at+"/approval", &csr, &csr); err != nil {
		return nil, nil, err
	}
	certificate, err = awaitCertificate(ctx, client, at)
	return certificate, key, err
}

func (k *credentials) certificateRequest() (key, text []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: k.user, Organization: k.groups}}, private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

func awaitCertificate(ctx context.Context, client *apiClient, at string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, signerTimeout)
	defer cancel()
	ticker := time.NewTicker(signerPeriod)
	defer ticker.Stop()
	for {
		var csr certificatesv1.CertificateSigningRequest
		switch err := client.do(ctx, http.MethodGet, at, nil, &csr); {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return nil, fmt.Errorf("the certificate was not signed within %s; the signer %s is part of kube-controller-manager. With --data-dir no signer is needed", signerTimeout, certificatesv1.KubeAPIServerClientSignerName)
		case err != nil:
			return nil, err
		}
		if len(csr.Status.Certificate) > 0 {
			return csr.Status.Certificate, nil
		}
		for _, c := range csr.Status.Conditions {
			if c.Type == certificatesv1.CertificateFailed {
				return nil, fmt.Errorf("the signer rejected the request: %s", c.Message)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}
