package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"mainstay.dev/mainstay/filters/authn"
	"mainstay.dev/mainstay/pki"
	"mainstay.dev/mainstay/request"
)

// frontProxyClient is the name of this server's own certificate as a front
// proxy, as a file and as a user.
const frontProxyClient = "front-proxy-client"

// frontProxy is how users are named between servers: by headers, which whoever
// shows a certificate of some authorities is believed.
type frontProxy struct {
	now atomic.Pointer[trustedProxies]
	// certificate returns what this server shows of itself; nil shows nothing.
	certificate func() (*tls.Certificate, error)
	// renew makes sure that an own certificate is good for some time.
	renew func() error
}

// trustedProxies says which front proxies are.
type trustedProxies struct {
	headers *authn.RequestHeaders
	// bundle are the authorities in PEM.
	bundle []byte
}

// Authenticate implements authn.Authenticator.
func (p *frontProxy) Authenticate(r *http.Request) (*request.User, error) {
	return p.now.Load().headers.Authenticate(r)
}

// setTrusted believes those whom some authorities have signed. What was found out
// of open connections does not count any more.
func (p *frontProxy) setTrusted(headers authn.RequestHeaders, bundle []byte) error {
	headers.Authorities = x509.NewCertPool()
	if !headers.Authorities.AppendCertsFromPEM(bundle) {
		return errNoCertificate
	}
	p.now.Store(&trustedProxies{&headers, bundle})
	return nil
}

// openFrontProxy reads, or makes, what front proxies are known by.
func (h *Host) openFrontProxy() error {
	config := h.config.RequestHeader
	proxy := &frontProxy{renew: func() error { return nil }}
	headers, err := config.headers()
	if err != nil {
		return err
	}
	if config.ClientCAFile == "" {
		err = proxy.useOwnCA(h.dir.pki(), *headers)
	} else {
		err = h.reloader.add("--requestheader-client-ca-file", func(contents [][]byte) error {
			return proxy.setTrusted(*headers, contents[0])
		}, config.ClientCAFile)
	}
	if err != nil {
		return err
	}
	if h.config.ProxyClientCertFile != "" {
		file, err := openCertificateFile(h.reloader, "--proxy-client-cert-file", h.config.ProxyClientCertFile, h.config.ProxyClientKeyFile)
		if err != nil {
			return err
		}
		proxy.certificate = func() (*tls.Certificate, error) { return file.get(), nil }
	}
	h.frontProxy = proxy
	return nil
}

// useOwnCA takes this server's own authority and certificate.
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
		certPEM, keyPEM, err := authority.Client(frontProxyClient, frontProxyClient)
		if err != nil {
			return err
		}
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			return fmt.Errorf("read the certificate of %s: %w", frontProxyClient, err)
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

// RequestHeaderConfig says which front proxies are believed what they say of
// their users. Its zero value believes this server's own kind: those with the
// certificate in the data directory, by the headers that kube-apiserver sends.
type RequestHeaderConfig struct {
	ClientCAFile string
	// AllowedNames are common names of certificates; none allows all of
	// ClientCAFile's.
	AllowedNames []string
	// UsernameHeaders and so on name headers; none: X-Remote-User, X-Remote-Uid,
	// X-Remote-Group and X-Remote-Extra-, where ClientCAFile is empty.
	UsernameHeaders, UIDHeaders, GroupHeaders, ExtraHeadersPrefix []string
}

// headers returns how users are read, and everything that is wrong with it.
func (c RequestHeaderConfig) headers() (*authn.RequestHeaders, error) {
	if c.ClientCAFile == "" {
		c = RequestHeaderConfig{
			AllowedNames: []string{frontProxyClient}, UsernameHeaders: []string{"X-Remote-User"}, UIDHeaders: []string{"X-Remote-Uid"},
			GroupHeaders: []string{"X-Remote-Group"}, ExtraHeadersPrefix: []string{"X-Remote-Extra-"},
		}
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

// check returns everything that is wrong, by the names of the flags.
func (c RequestHeaderConfig) check() error {
	_, err := c.headers()
	errs := []error{err}
	others := len(c.AllowedNames) + len(c.UsernameHeaders) + len(c.UIDHeaders) + len(c.GroupHeaders) + len(c.ExtraHeadersPrefix)
	switch {
	case c.ClientCAFile == "" && others > 0:
		errs = append(errs, errors.New("--requestheader-client-ca-file is needed for the other flags of front proxies, --requestheader-..., to mean anything"))
	case c.ClientCAFile != "" && len(c.UsernameHeaders) == 0:
		errs = append(errs, errors.New("--requestheader-username-headers is needed with --requestheader-client-ca-file"))
	}
	return errors.Join(errs...)
}
