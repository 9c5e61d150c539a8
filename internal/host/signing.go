package host

import (
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/spf13/pflag"
)

// SigningConfig selects the CAs that sign CertificateSigningRequests. The zero value signs with the
// server's own CA, for all signers.
type SigningConfig struct {
	// All signs for all signers. It cannot be combined with the other CAs, which sign for one signer
	// each.
	All, APIServerClient, KubeletClient, KubeletServing, LegacyUnknown KeyPairFiles
}

// KeyPairFiles are the paths of a certificate and its key in PEM; both are empty if there is none.
type KeyPairFiles struct{ CertFile, KeyFile string }

func (f KeyPairFiles) isSet() bool { return f != KeyPairFiles{} }

// signerFiles are the files of the CA of one signer; signer is "" for all signers.
type signerFiles struct {
	certFlag, keyFlag string // without --
	signer            string
	files             *KeyPairFiles
}

// signers returns the files of All, followed by the files of each individual signer.
func (c *SigningConfig) signers() []signerFiles {
	of := func(name, signer string, files *KeyPairFiles) signerFiles {
		return signerFiles{"cluster-signing-" + name + "cert-file", "cluster-signing-" + name + "key-file", signer, files}
	}
	return []signerFiles{
		of("", "", &c.All),
		of("kube-apiserver-client-", certificatesv1.KubeAPIServerClientSignerName, &c.APIServerClient),
		of("kubelet-client-", certificatesv1.KubeAPIServerClientKubeletSignerName, &c.KubeletClient),
		of("kubelet-serving-", certificatesv1.KubeletServingSignerName, &c.KubeletServing),
		of("legacy-unknown-", "kubernetes.io/legacy-unknown", &c.LegacyUnknown),
	}
}

// AddFlags defines the flags of the config.
func (c *SigningConfig) AddFlags(fs *pflag.FlagSet) {
	for _, s := range c.signers() {
		usage := "CA that signs certificate signing requests for all Kubernetes signers (default: the server's own CA)"
		if s.signer != "" {
			usage = "CA that signs certificate signing requests for " + s.signer + ", instead of --cluster-signing-cert-file"
		}
		fs.StringVar(&s.files.CertFile, s.certFlag, "", usage)
		fs.StringVar(&s.files.KeyFile, s.keyFlag, "", "key of --"+s.certFlag)
	}
}

func (c *SigningConfig) check() error {
	var errs []error
	for _, s := range c.signers() {
		errs = append(errs, checkTogether(s.certFlag, s.files.CertFile, s.keyFlag, s.files.KeyFile))
		if s.signer != "" && s.files.isSet() && c.All.isSet() {
			errs = append(errs, fmt.Errorf("--cluster-signing-cert-file, which is for all signers, cannot be given together with --%s", s.certFlag))
		}
	}
	return errors.Join(errs...)
}

// open loads the configured CAs. own is the server's own CA, which signs if no CA is configured. The
// returned function returns the current CA of a signer, or nil if the signer has no CA.
func (c *SigningConfig) open(own *tls.Certificate, reloader *fileReloader) (func(signer string) *tls.Certificate, error) {
	signing := map[string]func() *tls.Certificate{} // "" is for all signers
	for _, s := range c.signers() {
		if !s.files.isSet() {
			continue
		}
		load, err := s.open(reloader)
		if err != nil {
			return nil, err
		}
		signing[s.signer] = load
	}
	if len(signing) == 0 {
		signing[""] = func() *tls.Certificate { return own }
	}
	return func(signer string) *tls.Certificate {
		for _, name := range []string{"", signer} {
			if load := signing[name]; load != nil {
				return load()
			}
		}
		return nil
	}, nil
}

// open loads the CA, now and whenever its files change.
func (s *signerFiles) open(reloader *fileReloader) (func() *tls.Certificate, error) {
	var current atomic.Pointer[tls.Certificate]
	return current.Load, reloader.add("--"+s.certFlag, func(contents [][]byte) error {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		switch {
		case err != nil:
			return fmt.Errorf("with the key %s: %w", s.files.KeyFile, err)
		case len(pair.Certificate) != 1:
			return fmt.Errorf("expected 1 certificate, found %d", len(pair.Certificate))
		case !pair.Leaf.IsCA:
			return errors.New("the certificate is not a CA certificate")
		}
		current.Store(&pair)
		return nil
	}, s.files.CertFile, s.files.KeyFile)
}
