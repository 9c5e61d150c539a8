package host

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/host/pki"
	"mainstay.dev/mainstay/internal/request"
)

// frontProxy authenticates users whose requests pass through a front proxy. A front proxy is a client with a
// certificate of a trusted CA, and sends the user in request headers. frontProxy also provides the client
// certificate for aggregated servers.
type frontProxy struct {
	current atomic.Pointer[trustedProxies]
	// certificate returns the client certificate for aggregated servers; nil if there is none.
	certificate func() (*tls.Certificate, error)
	// renew renews the client certificate if this server issued it.
	renew func() error
}

// trustedProxies is the request header configuration. It is immutable.
type trustedProxies struct {
	headers *authn.RequestHeaders
	bundle  []byte // CA certificates in PEM
}

// Authenticate implements authn.Authenticator.
func (p *frontProxy) Authenticate(r *http.Request) (*request.Authentication, error) {
	return p.current.Load().headers.Authenticate(r)
}

// setTrusted sets the trusted CA certificates. Clients on open connections are authenticated again.
func (p *frontProxy) setTrusted(headers authn.RequestHeaders, bundle []byte) error {
	headers.Authorities = x509.NewCertPool()
	if !headers.Authorities.AppendCertsFromPEM(bundle) {
		return errNoCertificate
	}
	p.current.Store(&trustedProxies{&headers, bundle})
	return nil
}

// openFrontProxy opens the authenticator of front proxies, and the client certificate for aggregated
// servers. If no CA file is configured, it creates a CA and a certificate in dir.
func openFrontProxy(headersConfig RequestHeaderConfig, aggregation AggregationConfig, dir string, reloader *fileReloader) (*frontProxy, error) {
	proxy := &frontProxy{renew: func() error { return nil }}
	headers, err := headersConfig.headers()
	if err != nil {
		return nil, err
	}
	if headersConfig.ClientCAFile == "" {
		err = proxy.useOwnCA(dir, *headers)
	} else {
		err = reloader.add("--requestheader-client-ca-file", func(contents [][]byte) error {
			return proxy.setTrusted(*headers, contents[0])
		}, headersConfig.ClientCAFile)
	}
	if err != nil {
		return nil, err
	}
	if aggregation.ProxyClientCertFile != "" {
		file, err := openCertificateFile(reloader, "--proxy-client-cert-file", aggregation.ProxyClientCertFile, aggregation.ProxyClientKeyFile)
		if err != nil {
			return nil, err
		}
		proxy.certificate = func() (*tls.Certificate, error) { return file.get(), nil }
	}
	return proxy, nil
}

// useOwnCA trusts the CA in dir, which it creates if it does not exist, and issues this server's
// client certificate.
func (p *frontProxy) useOwnCA(dir string, headers authn.RequestHeaders) error {
	authority, err := pki.OpenFrontProxy(dir)
	if err != nil {
		return err
	}
	if err := p.setTrusted(headers, authority.Bundle()); err != nil {
		return err
	}
	var mu sync.Mutex // guards cert
	var cert tls.Certificate
	p.renew = func() error {
		certPEM, keyPEM, err := authority.Client(authn.FrontProxyClient, authn.FrontProxyClient)
		if err != nil {
			return err
		}
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			return fmt.Errorf("read the certificate of %s: %w", authn.FrontProxyClient, err)
		}
		mu.Lock()
		defer mu.Unlock()
		cert = pair
		return nil
	}
	p.certificate = func() (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		current := cert
		return &current, nil
	}
	return p.renew()
}

// RequestHeaderConfig configures the authentication of users by front proxies. Its zero value trusts the
// server's own front proxy CA and the headers that kube-apiserver sends.
type RequestHeaderConfig struct {
	// ClientCAFile contains the CA certificates of front proxies; "" selects the server's own front proxy
	// CA, and the fields below have no effect.
	ClientCAFile string
	// AllowedNames are the allowed common names of front proxies; empty allows all certificates of
	// ClientCAFile.
	AllowedNames []string
	// UsernameHeaders is required if ClientCAFile is set. If ClientCAFile is empty, the headers are
	// X-Remote-User, X-Remote-Uid, X-Remote-Group and those with the prefix X-Remote-Extra-.
	UsernameHeaders, UIDHeaders, GroupHeaders, ExtraHeadersPrefix []string
}

func (c *RequestHeaderConfig) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.ClientCAFile, "requestheader-client-ca-file", "", "CA certificates of front proxies, which authenticate users with request headers (default: the server's own front proxy CA)")
	fs.StringSliceVar(&c.AllowedNames, "requestheader-allowed-names", nil, "common names allowed in certificates of front proxies, comma-separated (default: any)")
	fs.StringSliceVar(&c.UsernameHeaders, "requestheader-username-headers", nil, "request headers with the user name, such as X-Remote-User")
	fs.StringSliceVar(&c.UIDHeaders, "requestheader-uid-headers", nil, "request headers with the user's UID, such as X-Remote-Uid")
	fs.StringSliceVar(&c.GroupHeaders, "requestheader-group-headers", nil, "request headers with the user's groups, such as X-Remote-Group")
	fs.StringSliceVar(&c.ExtraHeadersPrefix, "requestheader-extra-headers-prefix", nil, "prefixes of request headers with extra attributes of the user, such as X-Remote-Extra-")
}

// headers returns the authenticator without its CA certificates, or all errors in the header names, joined.
func (c RequestHeaderConfig) headers() (*authn.RequestHeaders, error) {
	if c.ClientCAFile == "" {
		return authn.DefaultRequestHeaders(), nil
	}
	headers := &authn.RequestHeaders{AllowedNames: c.AllowedNames}
	var errs []error
	for _, list := range []struct {
		flag  string
		names []string
		to    *[]string
	}{
		{"--requestheader-username-headers", c.UsernameHeaders, &headers.UserHeaders},
		{"--requestheader-uid-headers", c.UIDHeaders, &headers.UIDHeaders},
		{"--requestheader-group-headers", c.GroupHeaders, &headers.GroupHeaders},
		{"--requestheader-extra-headers-prefix", c.ExtraHeadersPrefix, &headers.ExtraPrefixes},
	} {
		names, err := authn.HeaderNames(list.names)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", list.flag, err))
		}
		*list.to = names
	}
	return headers, errors.Join(errs...)
}

func (c RequestHeaderConfig) check() error {
	_, err := c.headers()
	if c.ClientCAFile != "" && len(c.UsernameHeaders) == 0 {
		err = errors.Join(err, errors.New("--requestheader-client-ca-file requires --requestheader-username-headers"))
	}
	return err
}

// isIgnored reports whether names are set without ClientCAFile. In this case, the names have no effect, as
// in kube-apiserver.
func (c RequestHeaderConfig) isIgnored() bool {
	names := len(c.AllowedNames) + len(c.UsernameHeaders) + len(c.UIDHeaders) + len(c.GroupHeaders) + len(c.ExtraHeadersPrefix)
	return c.ClientCAFile == "" && names > 0
}
