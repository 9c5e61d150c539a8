// Package kubeconfig reads and writes kubeconfig files. It supports client certificates, tokens and passwords. It
// does not use client-go's reader, whose credential plugins would add a megabyte of code.
package kubeconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/egress"
)

// kubeconfig contains the supported fields of a kubeconfig file.
type kubeconfig struct {
	CurrentContext string       `json:"current-context"`
	Clusters       []namedEntry `json:"clusters"`
	Users          []namedEntry `json:"users"`
	Contexts       []namedEntry `json:"contexts"`
}

// namedEntry is an entry of one of the lists in a kubeconfig. Only one of Cluster, User and Context is set.
type namedEntry struct {
	Name    string            `json:"name"`
	Cluster kubeconfigCluster `json:"cluster"`
	User    kubeconfigUser    `json:"user"`
	Context struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	} `json:"context"`
}

type kubeconfigCluster struct {
	Server     string `json:"server"`
	CA         string `json:"certificate-authority"`
	CAData     []byte `json:"certificate-authority-data"`
	Insecure   bool   `json:"insecure-skip-tls-verify"`
	ServerName string `json:"tls-server-name"`
	ProxyURL   string `json:"proxy-url"`
}

type kubeconfigUser struct {
	Certificate     string `json:"client-certificate"`
	CertificateData []byte `json:"client-certificate-data"`
	Key             string `json:"client-key"`
	KeyData         []byte `json:"client-key-data"`
	Token           string `json:"token"`
	TokenFile       string `json:"tokenFile"`
	Username        string `json:"username"`
	Password        string `json:"password"`

	// The following fields are not supported. They are rejected instead of ignored.
	Exec         any    `json:"exec"`
	AuthProvider any    `json:"auth-provider"`
	Impersonate  string `json:"as"`
}

// Client returns an HTTP client for the server and user of the current context, and the base URL of
// the server without a trailing slash. A nil dial connects directly. It reads all referenced files
// immediately, and returns an error if the kubeconfig is invalid or uses unsupported credentials.
// Because credentials are rotated, the client reads a token file again for each request, and the
// files of a client certificate for each connection.
func Client(path string, dial egress.Dial) (*http.Client, string, error) {
	cluster, user, err := read(path)
	if err != nil {
		return nil, "", err
	}
	transport, err := newTransport(cluster, user, filepath.Dir(path), dial)
	if err != nil {
		return nil, "", fmt.Errorf("use the kubeconfig %s: %w", path, err)
	}
	return &http.Client{Transport: transport}, strings.TrimSuffix(cluster.Server, "/"), nil
}

// Cluster returns the server URL of the current context and its CA certificates in PEM; ca is nil if the
// kubeconfig specifies none. It returns an error if a file is unreadable or the kubeconfig is invalid. The
// caller owns ca.
func Cluster(path string) (server string, ca []byte, err error) {
	cluster, _, err := read(path)
	if err != nil {
		return "", nil, err
	}
	if ca, err = dataOrFile(cluster.CAData, cluster.CA, filepath.Dir(path)); err != nil {
		return "", nil, fmt.Errorf("use the kubeconfig %s: %w", path, err)
	}
	return cluster.Server, ca, nil
}

// read returns the cluster and user of the current context.
func read(path string) (kubeconfigCluster, kubeconfigUser, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return kubeconfigCluster{}, kubeconfigUser{}, fmt.Errorf("read the kubeconfig: %w", err)
	}
	var config kubeconfig
	if err := yaml.Unmarshal(raw, &config); err != nil {
		return kubeconfigCluster{}, kubeconfigUser{}, fmt.Errorf("read the kubeconfig %s: %w", path, err)
	}
	cluster, user, err := config.current()
	if err != nil {
		return kubeconfigCluster{}, kubeconfigUser{}, fmt.Errorf("use the kubeconfig %s: %w", path, err)
	}
	return cluster, user, nil
}

// current returns the cluster and user of the current context. As in client-go, a context without a user
// connects anonymously.
func (c *kubeconfig) current() (kubeconfigCluster, kubeconfigUser, error) {
	context, ok := findEntry(c.Contexts, c.CurrentContext)
	if !ok {
		return kubeconfigCluster{}, kubeconfigUser{}, fmt.Errorf("current-context %q does not exist", c.CurrentContext)
	}
	cluster, ok := findEntry(c.Clusters, context.Context.Cluster)
	if !ok {
		return kubeconfigCluster{}, kubeconfigUser{}, fmt.Errorf("cluster %q of context %q does not exist", context.Context.Cluster, context.Name)
	}
	user, ok := findEntry(c.Users, context.Context.User)
	if !ok && context.Context.User != "" {
		return kubeconfigCluster{}, kubeconfigUser{}, fmt.Errorf("user %q of context %q does not exist", context.Context.User, context.Name)
	}
	if err := user.User.check(); err != nil {
		return kubeconfigCluster{}, kubeconfigUser{}, fmt.Errorf("user %q: %w", user.Name, err)
	}
	return cluster.Cluster, user.User, nil
}

func findEntry(parts []namedEntry, name string) (namedEntry, bool) {
	for _, p := range parts {
		if p.Name == name {
			return p, true
		}
	}
	return namedEntry{}, false
}

// check returns an error if the user has unsupported credentials.
func (u *kubeconfigUser) check() error {
	for what, there := range map[string]bool{
		"exec": u.Exec != nil, "auth-provider": u.AuthProvider != nil, "as": u.Impersonate != "",
	} {
		if there {
			return fmt.Errorf("%s is not supported here; use a client certificate or a token, such as those of the server's admin.kubeconfig", what)
		}
	}
	return nil
}

// newTransport returns a transport that authenticates to the cluster as the user. Relative file
// names are resolved against dir.
func newTransport(cluster kubeconfigCluster, user kubeconfigUser, dir string, dial egress.Dial) (http.RoundTripper, error) {
	if at, err := url.Parse(cluster.Server); err != nil || at.Host == "" {
		return nil, fmt.Errorf("the server %q is not a URL such as https://127.0.0.1:6443", cluster.Server)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cluster.ServerName, InsecureSkipVerify: cluster.Insecure}
	authority, err := dataOrFile(cluster.CAData, cluster.CA, dir)
	if err != nil {
		return nil, err
	}
	if len(authority) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authority) {
			return nil, errors.New("the certificate authority contains no certificate")
		}
	}
	certificate, err := user.certificate(dir)
	if err != nil {
		return nil, fmt.Errorf("load the client certificate: %w", err)
	}
	if certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate() }
	}
	transport := &http.Transport{
		DialContext: dial, TLSClientConfig: config, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, HTTP2: egress.HTTP2Pings(),
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     90 * time.Second, // also closes the connections of a client that is no longer used
	}
	if cluster.ProxyURL != "" {
		proxy, err := url.Parse(cluster.ProxyURL)
		if err != nil {
			return nil, fmt.Errorf("parse the proxy URL: %w", err)
		}
		transport.Proxy = http.ProxyURL(proxy)
	}
	credentials := &Credentials{user: user, dir: dir}
	if err := credentials.Authorize(http.Header{}); err != nil {
		return nil, err
	}
	return &bearerTransport{credentials, transport}, nil
}

// certificate returns a function that returns the client certificate for a new connection. The function is nil
// if the user has no certificate. It reads the files again at each call. While they are invalid, for example
// because only one of the two files has been rotated, it returns the certificate that was loaded first.
func (u *kubeconfigUser) certificate(dir string) (func() (*tls.Certificate, error), error) {
	load := func() (*tls.Certificate, error) {
		certificate, err := dataOrFile(u.CertificateData, u.Certificate, dir)
		if err != nil {
			return nil, err
		}
		key, err := dataOrFile(u.KeyData, u.Key, dir)
		if err != nil || len(certificate)+len(key) == 0 {
			return nil, err
		}
		pair, err := tls.X509KeyPair(certificate, key)
		return &pair, err
	}
	first, err := load()
	if first == nil || err != nil {
		return nil, err
	}
	return func() (*tls.Certificate, error) {
		if current, err := load(); current != nil && err == nil {
			return current, nil
		}
		return first, nil
	}, nil
}

// dataOrFile returns data or, if data is empty, the content of the file. A relative file name is resolved
// against dir.
func dataOrFile(data []byte, file, dir string) ([]byte, error) {
	if len(data) > 0 || file == "" {
		return data, nil
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	return os.ReadFile(file)
}

// bearerTransport adds the token or password of the credentials, if any, to each request.
type bearerTransport struct {
	credentials *Credentials
	next        http.RoundTripper
}

func (b *bearerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	authorized := req.Clone(req.Context())
	if err := b.credentials.Authorize(authorized.Header); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	return b.next.RoundTrip(authorized)
}
