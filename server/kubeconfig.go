package server

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"mainstay.dev/mainstay/pki"
	"mainstay.dev/mainstay/request"
)

// kubeconfigFile is the administrator's kubeconfig in the data directory.
const kubeconfigFile = "admin.kubeconfig"

// adminUser is the user of the administrator's certificate.
const adminUser = "kubernetes-admin"

// adminContext is the administrator's context, and the cluster of all contexts.
const adminContext = "mainstay"

// User is somebody to whom the server's own authority issues a client certificate.
type User struct {
	Name   string
	Groups []string
}

// ClientCertificate issues a certificate for a user, and returns it and its key in
// PEM. It may be called concurrently, once the server serves.
func (h *Host) ClientCertificate(user User) (cert, key []byte, err error) {
	return h.authority.Issue(user.Name, user.Groups...)
}

// ServingCA returns, in PEM, what verifies the serving certificate. The server must
// serve; the result must not be changed.
func (h *Host) ServingCA() []byte {
	if h.certs.file == nil {
		return h.authority.Bundle()
	}
	return h.certs.file.now.Load().pem
}

// Kubeconfig returns a kubeconfig with new certificates: for the administrator, whose
// context is the current one, and for users, whose contexts have their names. The
// server must serve.
func (h *Host) Kubeconfig(users ...User) ([]byte, error) {
	cert, key, err := h.ClientCertificate(User{Name: adminUser, Groups: []string{request.GroupMasters}})
	if err != nil {
		return nil, err
	}
	entries := []kubeconfigEntry{{context: adminContext, user: adminUser, cert: cert, key: key}}
	for _, user := range users {
		if cert, key, err = h.ClientCertificate(user); err != nil {
			return nil, err
		}
		entries = append(entries, kubeconfigEntry{context: user.Name, user: user.Name, cert: cert, key: key})
	}
	return h.formatKubeconfig(entries...), nil
}

// writeKubeconfig writes the administrator's kubeconfig, if the file differs, and
// returns its path.
func (h *Host) writeKubeconfig() (string, error) {
	cert, key, err := h.authority.Client("admin", adminUser, request.GroupMasters)
	if err != nil {
		return "", err
	}
	data := h.formatKubeconfig(kubeconfigEntry{context: adminContext, user: adminUser, cert: cert, key: key})
	file := filepath.Join(h.config.DataDir, kubeconfigFile)
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, data) {
		return file, nil
	}
	return file, pki.WriteFile(file, data, 0o600)
}

// kubeconfigEntry is a user with a context.
type kubeconfigEntry struct {
	context, user string
	cert, key     []byte
}

// formatKubeconfig returns a kubeconfig whose current context is the first one.
func (h *Host) formatKubeconfig(entries ...kubeconfigEntry) []byte {
	encode, quote := base64.StdEncoding.EncodeToString, strconv.Quote
	out := fmt.Appendf(nil, "apiVersion: v1\nkind: Config\nclusters:\n- name: %s\n  cluster:\n    server: %s\n    certificate-authority-data: %s\nusers:\n",
		adminContext, quote(h.url()), encode(h.ServingCA()))
	for _, e := range entries {
		out = fmt.Appendf(out, "- name: %s\n  user:\n    client-certificate-data: %s\n    client-key-data: %s\n", quote(e.user), encode(e.cert), encode(e.key))
	}
	out = append(out, "contexts:\n"...)
	for _, e := range entries {
		out = fmt.Appendf(out, "- name: %s\n  context:\n    cluster: %s\n    user: %s\n", quote(e.context), adminContext, quote(e.user))
	}
	return fmt.Appendf(out, "current-context: %s\n", quote(entries[0].context))
}
