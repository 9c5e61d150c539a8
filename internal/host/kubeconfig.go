package host

import (
	"bytes"
	"os"
	"path/filepath"
	"time"

	"mainstay.dev/mainstay/internal/egress/kubeconfig"
	"mainstay.dev/mainstay/internal/host/pki"
	"mainstay.dev/mainstay/internal/request"
)

// kubeconfigFile is the file name of the administrator's kubeconfig in the data directory.
const kubeconfigFile = "admin.kubeconfig"

// adminUser is the user of the administrator's certificate.
const adminUser = "kubernetes-admin"

// issuedLifetime is the lifetime of the certificates of ClientCertificate.
const issuedLifetime = 365 * 24 * time.Hour

// User is a user for whom the server's own CA issues a client certificate.
type User struct {
	Name   string
	Groups []string
}

// Administrator returns a user with all permissions.
func Administrator() User { return User{Name: adminUser, Groups: []string{request.GroupMasters}} }

// ClientCertificate issues a certificate for a user, and returns it and its key in PEM. The server
// must be serving. It is safe for concurrent use. It returns an error if the certificate cannot be
// signed. The caller owns the result.
func (h *Host) ClientCertificate(user User) (cert, key []byte, err error) {
	return h.identity.authority.Issue(issuedLifetime, user.Name, user.Groups...)
}

// ServingCA returns the CA certificates that verify this server, in PEM. The server must be serving.
// The result must not be modified.
func (h *Host) ServingCA() []byte { return h.identity.servingCA() }

// Kubeconfig returns a kubeconfig with new client certificates for the administrator and for users. The
// current context is the administrator's. The context of each other user has the user's name. The server
// must be serving. Kubeconfig returns an error if a certificate cannot be signed. The caller owns the
// result.
func (h *Host) Kubeconfig(users ...User) ([]byte, error) {
	entry, err := h.entry(Administrator())
	if err != nil {
		return nil, err
	}
	for _, user := range users {
		other, err := h.entry(user)
		if err != nil {
			return nil, err
		}
		entry.Others = append(entry.Others, other)
	}
	return entry.Text(), nil
}

func (h *Host) entry(user User) (kubeconfig.Entry, error) {
	cert, key, err := h.ClientCertificate(user)
	return kubeconfig.Entry{Server: h.listener.url(), CA: h.ServingCA(), User: user.Name, Certificate: cert, Key: key}, err
}

// writeKubeconfig writes the administrator's kubeconfig, if its content has changed, and returns its path.
func (h *Host) writeKubeconfig() (string, error) {
	admin := Administrator()
	cert, key, err := h.identity.authority.Client("admin", admin.Name, admin.Groups...)
	if err != nil {
		return "", err
	}
	entry := kubeconfig.Entry{Server: h.listener.url(), CA: h.ServingCA(), User: admin.Name, Certificate: cert, Key: key}
	data := entry.Text()
	file := filepath.Join(h.config.Storage.DataDir, kubeconfigFile)
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, data) {
		return file, nil
	}
	return file, pki.WriteFile(file, data, 0o600)
}
