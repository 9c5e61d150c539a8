package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/host"
)

// The types below are pflag.Values that write into a server.Config.

// refused is a flag of kube-apiserver for a missing feature. It accepts any value; serveFlags.check
// returns an error.
type refused struct{ kind string }

func (r *refused) Set(string) error { return nil }
func (r *refused) String() string   { return "" }
func (r *refused) Type() string     { return r.kind }

// only accepts one value.
type only struct{ value string }

func (o *only) Set(value string) error {
	if value == o.value {
		return nil
	}
	return fmt.Errorf("%s is not supported yet", value)
}
func (o *only) String() string { return o.value }
func (o *only) Type() string   { return "string" }

// not is a bool flag that switches something off when it is false.
type not struct{ off *bool }

func opposite(off *bool) *not { return &not{off} }

func (n *not) Set(value string) error {
	on, err := strconv.ParseBool(value)
	*n.off = !on
	return err
}
func (n *not) String() string { return strconv.FormatBool(n.off == nil || !*n.off) }
func (n *not) Type() string   { return "bool" }

// address is an IP address; preset is the meaning of an unset one.
type address struct {
	to     *netip.Addr
	preset string
}

func (a *address) Set(value string) error {
	addr, err := netip.ParseAddr(value)
	if err != nil {
		return errors.New("it is not an IP address")
	}
	*a.to = addr.Unmap()
	return nil
}
func (a *address) String() string {
	if a.to == nil || !a.to.IsValid() {
		return a.preset
	}
	return a.to.String()
}
func (a *address) Type() string { return "ip" }

// prefixes is a list of CIDRs.
type prefixes struct{ to *[]netip.Prefix }

func (p *prefixes) Set(value string) error {
	var list []netip.Prefix
	for item := range strings.SplitSeq(value, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(item))
		if err != nil {
			return fmt.Errorf("%q is not a CIDR such as 10.96.0.0/12", item)
		}
		list = append(list, prefix.Masked())
	}
	*p.to = list
	return nil
}
func (p *prefixes) String() string {
	if p.to == nil {
		return ""
	}
	var list []string
	for _, prefix := range *p.to {
		list = append(list, prefix.String())
	}
	return strings.Join(list, ",")
}
func (p *prefixes) Type() string { return "cidrs" }

// port is a number of a port, of which 0 means any that is free.
type port struct {
	to     *int
	preset int
}

func (p *port) Set(value string) error {
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil {
		return errors.New("it must be a port: a number from 1 to 65535, or 0 for a free port")
	}
	if *p.to = int(n); n == 0 {
		*p.to = host.AnyPort
	}
	return nil
}
func (p *port) String() string { return strconv.Itoa(p.preset) }
func (p *port) Type() string   { return "int" }

// optionalSeconds is a number of seconds, of which 0 is one, too.
type optionalSeconds struct{ to **int64 }

func (o *optionalSeconds) Set(value string) error {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return errors.New("it must be a number of seconds")
	}
	*o.to = &n
	return nil
}

func (o *optionalSeconds) String() string {
	if o.to == nil || *o.to == nil {
		return "300"
	}
	return strconv.FormatInt(**o.to, 10)
}

func (o *optionalSeconds) Type() string { return "int" }

// zeroIsNoLimit is a number of which 0 means any.
type zeroIsNoLimit struct {
	to     *int
	preset int
}

func (z *zeroIsNoLimit) Set(value string) error {
	n, err := strconv.Atoi(value)
	switch {
	case err != nil:
		return errors.New("it is not a number")
	case n < 0:
		return errors.New("it cannot be negative")
	case n == 0:
		n = host.NoLimit
	}
	*z.to = n
	return nil
}
func (z *zeroIsNoLimit) String() string { return strconv.Itoa(z.preset) }
func (z *zeroIsNoLimit) Type() string   { return "int" }

// bytesOrNoLimit is an amount of memory, of which 0 means any.
type bytesOrNoLimit struct {
	to     *int64
	preset string
}

func (b *bytesOrNoLimit) Set(value string) error {
	q, err := resource.ParseQuantity(value)
	if err != nil {
		return errors.New("it is not a size in bytes, such as 512Mi")
	}
	n := q.Value()
	switch {
	case n < 0:
		return errors.New("it cannot be negative")
	case n == 0:
		n = host.NoLimit
	}
	*b.to, b.preset = n, value
	return nil
}
func (b *bytesOrNoLimit) String() string { return b.preset }
func (b *bytesOrNoLimit) Type() string   { return "quantity" }

// zeroIsDefault is a number of which 0 means the default.
type zeroIsDefault struct {
	to     *int
	preset int
}

func (z *zeroIsDefault) Set(value string) error {
	n, err := strconv.Atoi(value)
	if err != nil {
		return errors.New("it is not a number")
	}
	*z.to = n
	return nil
}
func (z *zeroIsDefault) String() string { return strconv.Itoa(z.preset) }
func (z *zeroIsDefault) Type() string   { return "int" }

// zeroIsNever is a period of which 0 means never.
type zeroIsNever struct {
	to     *time.Duration
	preset time.Duration
}

func (z *zeroIsNever) Set(value string) error {
	d, err := time.ParseDuration(value)
	switch {
	case err != nil:
		return errors.New("it is not a duration such as 5m")
	case d < 0:
		return errors.New("it cannot be negative")
	case d == 0:
		d = -1
	}
	*z.to = d
	return nil
}
func (z *zeroIsNever) String() string { return z.preset.String() }
func (z *zeroIsNever) Type() string   { return "duration" }

// seconds is a duration as a number of seconds.
type seconds struct {
	to     *time.Duration
	preset time.Duration
}

func (s *seconds) Set(value string) error {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return errors.New("it is not a number of seconds")
	}
	*s.to = time.Duration(n) * time.Second
	return nil
}
func (s *seconds) String() string { return strconv.Itoa(int(s.preset / time.Second)) }
func (s *seconds) Type() string   { return "int" }

// zeroSecondsIsNever is a number of seconds of which 0 means never.
type zeroSecondsIsNever struct{ seconds }

func (z *zeroSecondsIsNever) Set(value string) error {
	if err := z.seconds.Set(value); err != nil {
		return err
	}
	switch {
	case *z.to < 0:
		return errors.New("it cannot be negative")
	case *z.to == 0:
		*z.to = -1
	}
	return nil
}

// tlsVersion is a version of TLS by the name of Go's constant.
type tlsVersion struct {
	to   *uint16
	name string
}

func (v *tlsVersion) Set(value string) error {
	for id := uint16(tls.VersionTLS10); id <= tls.VersionTLS13; id++ {
		if value == tlsVersionName(id) {
			*v.to, v.name = id, value
			return nil
		}
	}
	if value == "" {
		*v.to, v.name = 0, ""
		return nil
	}
	return fmt.Errorf("unknown tls version %q; it must be one of %s", value, strings.Join(tlsVersionNames(), ", "))
}
func (v *tlsVersion) String() string { return v.name }
func (v *tlsVersion) Type() string   { return "string" }

func tlsVersionName(id uint16) string {
	return "Version" + strings.NewReplacer(" ", "", ".", "").Replace(tls.VersionName(id))
}

func tlsVersionNames() []string {
	var names []string
	for id := uint16(tls.VersionTLS10); id <= tls.VersionTLS13; id++ {
		names = append(names, tlsVersionName(id))
	}
	return names
}

// cipherSuites is a list of cipher suites by their names.
type cipherSuites struct {
	to    *[]uint16
	names []string
}

// olderCipherName returns Go's name of two suites for which kube-apiserver also accepts another
// name.
func olderCipherName(name string) string {
	switch name {
	case "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305":
		return name + "_SHA256"
	}
	return name
}

func (c *cipherSuites) Set(value string) error {
	if value == "" {
		return nil
	}
	known := append(tls.CipherSuites(), tls.InsecureCipherSuites()...)
	for name := range strings.SplitSeq(value, ",") {
		i := slices.IndexFunc(known, func(s *tls.CipherSuite) bool { return s.Name == olderCipherName(name) })
		if i < 0 {
			return fmt.Errorf("Cipher suite %s not supported or doesn't exist", name)
		}
		*c.to = append(*c.to, known[i].ID)
		c.names = append(c.names, name)
	}
	return nil
}
func (c *cipherSuites) String() string { return strings.Join(c.names, ",") }
func (c *cipherSuites) Type() string   { return "strings" }

// curves is a list of key exchanges by the numbers of crypto/tls.
type curves struct{ to *[]tls.CurveID }

func (c *curves) Set(value string) error {
	if value == "" {
		return nil
	}
	for text := range strings.SplitSeq(value, ",") {
		number, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return fmt.Errorf("%q is not a number", text)
		}
		id := tls.CurveID(number)
		switch {
		case number < 1 || number > math.MaxUint16:
			return fmt.Errorf("curve preference %d is out of range (must be 1-%d)", number, math.MaxUint16)
		case slices.Contains(*c.to, id):
			return fmt.Errorf("duplicate curve preference %d", number)
		case strings.HasPrefix(id.String(), "CurveID("):
			return fmt.Errorf("curve preference %d is not supported by the current Go version", number)
		}
		*c.to = append(*c.to, id)
	}
	return nil
}
func (c *curves) String() string { return "" }
func (c *curves) Type() string   { return "numbers" }

// sniCertificates is a repeated flag of CERT,KEY[:NAME,...].
type sniCertificates struct{ to *[]host.SNICertificate }

func (s *sniCertificates) Set(value string) error {
	files, names, hasNames := strings.Cut(value, ":")
	cert, key, ok := strings.Cut(files, ",")
	sni := host.SNICertificate{CertFile: strings.TrimSpace(cert), KeyFile: strings.TrimSpace(key)}
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
	*s.to = append(*s.to, sni)
	return nil
}
func (s *sniCertificates) String() string { return "" }
func (s *sniCertificates) Type() string   { return "cert,key" }

// gates is a set of feature gates, which a repeated flag adds to. Whether they can
// be set so is checked with all other options.
type gates struct{ to *feature.Set }

func (g *gates) Set(value string) error {
	if *g.to == nil {
		*g.to = feature.Set{}
	}
	return g.to.Parse(value)
}
func (g *gates) String() string { return "" }
func (g *gates) Type() string   { return "gates" }

// runtimeConfig maps APIs to "true" or "false"; a repeated flag adds entries. It is validated with
// all other options.
type runtimeConfig struct{ to *map[string]string }

func (r *runtimeConfig) Set(value string) error {
	if *r.to == nil {
		*r.to = map[string]string{}
	}
	for item := range strings.SplitSeq(value, ",") {
		if item == "" {
			continue
		}
		key, on, _ := strings.Cut(item, "=")
		(*r.to)[strings.TrimSpace(key)] = strings.TrimSpace(on)
	}
	return nil
}
func (r *runtimeConfig) String() string { return "" }
func (r *runtimeConfig) Type() string   { return "apis" }
