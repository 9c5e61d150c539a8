package kubeconfig

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Users contains the users of a kubeconfig, which are credentials for calls to other servers. The name of a
// user specifies the servers that receive its credentials: "host:port" or "*.domain:port", where port 443 may
// be omitted, or "*" for all other servers. If no name matches, the user of the current context is used. Users
// is immutable and safe for concurrent use. A nil *Users contains no users.
type Users struct {
	byName  map[string]*kubeconfigUser
	current string // the user of the current context
	dir     string
}

// ReadUsers reads the users of a kubeconfig. The file need not contain clusters. It returns an error if a user
// has unsupported credentials.
func ReadUsers(path string) (*Users, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	var config kubeconfig
	if err := yaml.Unmarshal(raw, &config); err != nil {
		return nil, fmt.Errorf("read the kubeconfig %s: %w", path, err)
	}
	users := &Users{byName: make(map[string]*kubeconfigUser, len(config.Users)), dir: filepath.Dir(path)}
	for i := range config.Users {
		user := &config.Users[i].User
		if err := user.check(); err != nil {
			return nil, fmt.Errorf("use the kubeconfig %s: user %q: %w", path, config.Users[i].Name, err)
		}
		users.byName[config.Users[i].Name] = user
	}
	if context, ok := findEntry(config.Contexts, config.CurrentContext); ok {
		users.current = context.Context.User
	}
	return users, nil
}

// CredentialsFor returns the credentials for a server, or nil if there are none. It reads client
// certificates immediately and returns an error if they are invalid. Token files are read by
// Authorize.
func (u *Users) CredentialsFor(host, port string) (*Credentials, error) {
	if u == nil {
		return nil, nil
	}
	user := u.find(host, port)
	if user == nil {
		return nil, nil
	}
	certificate, err := user.certificate(u.dir)
	if err != nil {
		return nil, fmt.Errorf("load the client certificate for %s: %w", net.JoinHostPort(host, port), err)
	}
	return &Credentials{Certificate: certificate, user: *user, dir: u.dir}, nil
}

// find returns the user with the most specific name that matches the server, or nil.
func (u *Users) find(host, port string) *kubeconfigUser {
	names := wildcardNames(net.JoinHostPort(host, port))
	if port == "443" {
		names = append(names, wildcardNames(host)...)
	}
	for _, name := range append(names, "*", u.current) {
		if user := u.byName[name]; user != nil {
			return user
		}
	}
	return nil
}

// wildcardNames returns the name and the wildcard names that match it, most specific first.
func wildcardNames(name string) []string {
	names := []string{name}
	for _, rest, more := strings.Cut(name, "."); more; _, rest, more = strings.Cut(rest, ".") {
		names = append(names, "*."+rest)
	}
	return names
}

// Credentials authenticates this server to another server. It is immutable and safe for concurrent use.
type Credentials struct {
	// Certificate returns the client certificate for a new connection. It reads the files of the certificate
	// again at each call. It is nil if there is no client certificate.
	Certificate func() (*tls.Certificate, error)
	user        kubeconfigUser
	dir         string
}

// Authorize sets the Authorization header to the token or password. It reads a token file for each
// call, because tokens are rotated, and returns an error if the file cannot be read. It has no
// effect on a nil receiver.
func (c *Credentials) Authorize(header http.Header) error {
	if c == nil {
		return nil
	}
	token, err := dataOrFile(nil, c.user.TokenFile, c.dir)
	if len(token) == 0 {
		token = []byte(c.user.Token) // as in client-go, only if the file has no token
	}
	switch {
	case len(token) > 0:
		header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	case err != nil:
		return fmt.Errorf("read the token: %w", err)
	case c.user.Username != "":
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(c.user.Username+":"+c.user.Password)))
	}
	return nil
}
