package kubeconfig

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// Entry is what a new kubeconfig says: one cluster, one user. The user has a certificate and
// its key, or a token.
type Entry struct {
	Server string // URL
	CA     []byte // PEM; nil: the operating system's authorities
	User   string
	// Certificate and Key are PEM.
	Certificate, Key []byte
	Token            string
	Namespace        string // of requests that name none; "": default
}

// Text returns the kubeconfig.
func (e *Entry) Text() []byte {
	const name = "mainstay"
	encode := base64.StdEncoding.EncodeToString
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("apiVersion: v1\nkind: Config\nclusters:\n- name: %s\n  cluster:\n    server: %s", name, strconv.Quote(e.Server))
	if len(e.CA) > 0 {
		line("    certificate-authority-data: %s", encode(e.CA))
	}
	user := strconv.Quote(e.User)
	line("users:\n- name: %s\n  user:", user)
	if e.Token != "" {
		line("    token: %s", e.Token)
	} else {
		line("    client-certificate-data: %s\n    client-key-data: %s", encode(e.Certificate), encode(e.Key))
	}
	line("contexts:\n- name: %s\n  context:\n    cluster: %s\n    user: %s", name, name, user)
	if e.Namespace != "" {
		line("    namespace: %s", e.Namespace)
	}
	line("current-context: %s", name)
	return []byte(b.String())
}
