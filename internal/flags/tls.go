package flags

import (
	"crypto/tls"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// TLSVersionVar defines a flag for a TLS version, named like its constant in crypto/tls, such as VersionTLS12.
// The empty value is stored as 0.
func TLSVersionVar(fs *pflag.FlagSet, p *uint16, name, usage string) {
	Var(fs, name, "string", "", usage, func(text string) error {
		if text == "" {
			*p = 0
			return nil
		}
		for id := uint16(tls.VersionTLS10); id <= tls.VersionTLS13; id++ {
			if text == tlsVersionName(id) {
				*p = id
				return nil
			}
		}
		return fmt.Errorf("unknown tls version %q; it must be one of %s", text, strings.Join(TLSVersionNames(), ", "))
	})
}

// TLSVersionNames returns the valid values of a flag of TLSVersionVar in ascending order. The caller owns the
// slice.
func TLSVersionNames() []string {
	var names []string
	for id := uint16(tls.VersionTLS10); id <= tls.VersionTLS13; id++ {
		names = append(names, tlsVersionName(id))
	}
	return names
}

func tlsVersionName(id uint16) string {
	return "Version" + strings.NewReplacer(" ", "", ".", "").Replace(tls.VersionName(id))
}

// CipherSuitesVar defines a flag for a comma-separated list of cipher suites. It accepts the names of
// crypto/tls and of kube-apiserver. A repeated flag adds to the list.
func CipherSuitesVar(fs *pflag.FlagSet, p *[]uint16, name, usage string) {
	known := append(tls.CipherSuites(), tls.InsecureCipherSuites()...)
	ListVar(fs, name, "strings", usage, func(text string) error {
		if text == "" {
			return nil
		}
		for name := range strings.SplitSeq(text, ",") {
			i := slices.IndexFunc(known, func(s *tls.CipherSuite) bool { return s.Name == cipherSuiteName(name) })
			if i < 0 {
				return fmt.Errorf("Cipher suite %s not supported or doesn't exist", name)
			}
			*p = append(*p, known[i].ID)
		}
		return nil
	})
}

// cipherSuiteName returns the name of a cipher suite in crypto/tls. For two cipher suites, kube-apiserver also
// accepts a shorter name.
func cipherSuiteName(name string) string {
	switch name {
	case "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305":
		return name + "_SHA256"
	}
	return name
}

// CurvesVar defines a flag for a comma-separated list of key exchanges, given by their tls.CurveID numbers. A
// repeated flag adds to the list. Duplicate and unsupported numbers are errors.
func CurvesVar(fs *pflag.FlagSet, p *[]tls.CurveID, name, usage string) {
	ListVar(fs, name, "numbers", usage, func(text string) error {
		if text == "" {
			return nil
		}
		for item := range strings.SplitSeq(text, ",") {
			number, err := strconv.ParseInt(item, 10, 32)
			if err != nil {
				return fmt.Errorf("%q is not a number", item)
			}
			id := tls.CurveID(number)
			switch {
			case number < 1 || number > math.MaxUint16:
				return fmt.Errorf("curve preference %d is out of range (must be 1-%d)", number, math.MaxUint16)
			case slices.Contains(*p, id):
				return fmt.Errorf("duplicate curve preference %d", number)
			case strings.HasPrefix(id.String(), "CurveID("):
				return fmt.Errorf("curve preference %d is not supported by the current Go version", number)
			}
			*p = append(*p, id)
		}
		return nil
	})
}
