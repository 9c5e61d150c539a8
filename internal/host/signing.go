package host

import (
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// SigningConfig names, by flags, the authorities that sign CertificateSigningRequests. The
// zero value has the server's own sign for all signers.
type SigningConfig struct {
	// All signs for all signers; the others, each for one, instead of it.
	All, APIServerClient, KubeletClient, KubeletServing, LegacyUnknown KeyPairFiles
}

// KeyPairFiles are a certificate and its key.
type KeyPairFiles struct{ CertFile, KeyFile string }

func (f KeyPairFiles) isSet() bool { return f != KeyPairFiles{} }

// SignerFiles are the files of the authority of one signer, or, without Signer, of all.
type SignerFiles struct {
	// CertFlag and KeyFlag are the names of the flags.
	CertFlag, KeyFlag string
	Signer            string
	Files             *KeyPairFiles
}

// Signers returns the files of all signers, those for all signers first.
func (c *SigningConfig) Signers() []SignerFiles {
	of := func(name, signer string, files *KeyPairFiles) SignerFiles {
		return SignerFiles{"cluster-signing-" + name + "cert-file", "cluster-signing-" + name + "key-file", signer, files}
	}
	return []SignerFiles{
		of("", "", &c.All),
		of("kube-apiserver-client-", certificatesv1.KubeAPIServerClientSignerName, &c.APIServerClient),
		of("kubelet-client-", certificatesv1.KubeAPIServerClientKubeletSignerName, &c.KubeletClient),
		of("kubelet-serving-", certificatesv1.KubeletServingSignerName, &c.KubeletServing),
		of("legacy-unknown-", "kubernetes.io/legacy-unknown", &c.LegacyUnknown),
	}
}

func (c *SigningConfig) check() error {
	var errs []error
	for _, s := range c.Signers() {
		if (s.Files.CertFile == "") != (s.Files.KeyFile == "") {
			errs = append(errs, fmt.Errorf("--%s and --%s must be given together", s.CertFlag, s.KeyFlag))
		}
		if s.Signer != "" && s.Files.isSet() && c.All.isSet() {
			errs = append(errs, fmt.Errorf("--cluster-signing-cert-file, which is for all signers, cannot be given together with --%s", s.CertFlag))
		}
	}
	return errors.Join(errs...)
}

// openSigning loads the authority of each signer: those of the flags, or the server's own
// authority, which signs its clients' and its serving certificate.
func (h *Host) openSigning() error {
	signing := map[string]func() *tls.Certificate{} // "": for all
	for _, s := range h.config.Signing.Signers() {
		if !s.Files.isSet() {
			continue
		}
		load, err := h.openSigner(s)
		if err != nil {
			return err
		}
		signing[s.Signer] = load
	}
	if len(signing) == 0 {
		own := h.authority.KeyPair()
		signing[""] = func() *tls.Certificate { return own }
	}
	h.signing = func(signer string) *tls.Certificate {
		for _, name := range []string{"", signer} {
			if load := signing[name]; load != nil {
				return load()
			}
		}
		return nil
	}
	return nil
}

// openSigner loads the authority of a signer, now and whenever its files change.
func (h *Host) openSigner(s SignerFiles) (func() *tls.Certificate, error) {
	var now atomic.Pointer[tls.Certificate]
	return now.Load, h.reloader.add("--"+s.CertFlag, func(contents [][]byte) error {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		switch {
		case err != nil:
			return fmt.Errorf("with the key %s: %w", s.Files.KeyFile, err)
		case len(pair.Certificate) != 1:
			return fmt.Errorf("expected 1 certificate, found %d", len(pair.Certificate))
		case !pair.Leaf.IsCA:
			return errors.New("the certificate is not one of an authority")
		}
		now.Store(&pair)
		return nil
	}, s.Files.CertFile, s.Files.KeyFile)
}
