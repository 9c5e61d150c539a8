package host

import (
	"crypto/tls"
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/flags"
)

// TLSConfig configures TLS of the listener. Its zero value uses a certificate of the server's own CA, TLS
// 1.2 or later, and Go's default cipher suites.
type TLSConfig struct {
	CertFile, KeyFile string
	// CertDir is a folder for apiserver.crt and apiserver.key. If the files exist and the server's own CA
	// did not issue the certificate, they are used like CertFile and KeyFile. Otherwise, the server writes
	// its own certificate and key there. "" disables the folder. CertFile takes precedence.
	CertDir string
	// SNI are additional certificates, selected by server name.
	SNI []SNICertificate
	// MinVersion is a constant of crypto/tls; 0 selects TLS 1.2.
	MinVersion uint16
	// CipherSuites are constants of crypto/tls, for TLS 1.2; empty selects Go's defaults.
	CipherSuites []uint16
	// CurvePreferences are the allowed key exchanges; empty selects Go's defaults.
	CurvePreferences []tls.CurveID
}

// SNICertificate is a serving certificate for specific host names.
type SNICertificate struct {
	CertFile, KeyFile string
	// Names are host names, whose first label may be *. Empty selects the names in the certificate.
	Names []string
}

// AddFlags defines the flags of the config.
func (c *TLSConfig) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.CertFile, "tls-cert-file", "", "serving certificate, followed by its chain (default: issued by the server's own CA)")
	fs.StringVar(&c.KeyFile, "tls-private-key-file", "", "key of --tls-cert-file")
	fs.StringVar(&c.CertDir, "cert-dir", "", "folder of the serving certificate apiserver.crt and its key apiserver.key; the server writes its own certificate there if they do not exist. --tls-cert-file takes precedence")
	flags.ListVar(fs, "tls-sni-cert-key", "cert,key", "additional serving certificate as CERT,KEY or CERT,KEY:NAME,...; may be repeated", c.addSNI)
	flags.TLSVersionVar(fs, &c.MinVersion, "tls-min-version", "minimum TLS version: "+strings.Join(flags.TLSVersionNames(), ", ")+" (default VersionTLS12)")
	flags.CurvesVar(fs, &c.CurvePreferences, "tls-curve-preferences", "allowed key exchanges, as numbers of crypto/tls.CurveID, comma-separated; Go selects among them (default: Go's)")
	flags.CipherSuitesVar(fs, &c.CipherSuites, "tls-cipher-suites", "TLS 1.2 cipher suites, comma-separated (default: Go's)")
}

// addSNI parses a value of --tls-sni-cert-key. It returns kube-apiserver's error messages.
func (c *TLSConfig) addSNI(value string) error {
	files, names, hasNames := strings.Cut(value, ":")
	cert, key, ok := strings.Cut(files, ",")
	sni := SNICertificate{CertFile: strings.TrimSpace(cert), KeyFile: strings.TrimSpace(key)}
	if !ok || sni.CertFile == "" || sni.KeyFile == "" || strings.Contains(key, ",") {
		return errors.New("expected comma separated certificate and key file paths")
	}
	if hasNames {
		if strings.TrimSpace(names) == "" {
			return errors.New("empty names list is not allowed")
		}
		for name := range strings.SplitSeq(names, ",") {
			sni.Names = append(sni.Names, strings.TrimSpace(name))
		}
	}
	c.SNI = append(c.SNI, sni)
	return nil
}

func (c *TLSConfig) check() error {
	return checkTogether("tls-cert-file", c.CertFile, "tls-private-key-file", c.KeyFile)
}

func (c *TLSConfig) minVersion() uint16 {
	if c.MinVersion == 0 {
		return tls.VersionTLS12
	}
	return c.MinVersion
}
