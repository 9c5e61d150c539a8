package kubeconfig

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// Entry describes a new kubeconfig with one cluster and one user. The user has either a certificate
// with its key, or a token.
type Entry struct {
	Server string // URL
	CA     []byte // PEM; nil selects the CA certificates of the operating system
	User   string
	// Certificate and Key are PEM.
	Certificate, Key []byte
	Token            string
	Namespace        string // default namespace of the context; "" selects "default"
	// Others are additional users of the cluster. Each gets a context that has the name of the
	// user.
	Others []Entry
}

// Text returns the content of the kubeconfig as YAML. The current context is the context of e.
func (e *Entry) Text() []byte {
	const name = "mainstay"
	encode := base64.StdEncoding.EncodeToString
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("apiVersion: v1\nkind: Config\nclusters:\n- name: %s\n  cluster:\n    server: %s", name, strconv.Quote(e.Server))
	if len(e.CA) > 0 {
		line("    certificate-authority-data: %s", encode(e.CA))
	}
	line("users:")
	for _, u := range append([]Entry{*e}, e.Others...) {
		line("- name: %s\n  user:", strconv.Quote(u.User))
		if u.Token != "" {
			line("    token: %s", u.Token)
		} else {
			line("    client-certificate-data: %s\n    client-key-data: %s", encode(u.Certificate), encode(u.Key))
		}
	}
	context := func(context string, u *Entry) {
		line("- name: %s\n  context:\n    cluster: %s\n    user: %s", context, name, strconv.Quote(u.User))
		if u.Namespace != "" {
			line("    namespace: %s", strconv.Quote(u.Namespace)) // without quotes, a name such as 42 would be a number
		}
	}
	line("contexts:")
	context(name, e)
	for i := range e.Others {
		context(strconv.Quote(e.Others[i].User), &e.Others[i])
	}
	line("current-context: %s", name)
	return []byte(b.String())
}
