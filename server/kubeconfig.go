package server

import (
	"bytes"
	"os"
	"path/filepath"

	"mainstay.dev/mainstay/egress/kubeconfig"
	"mainstay.dev/mainstay/pki"
	"mainstay.dev/mainstay/request"
)

// kubeconfigFile is the administrator's kubeconfig in the data directory.
const kubeconfigFile = "admin.kubeconfig"

// adminUser is the user of the administrator's certificate.
const adminUser = "kubernetes-admin"

// writeKubeconfig writes the administrator's kubeconfig for a URL, if the file
// differs, and returns its path.
func writeKubeconfig(dataDir, url string, authority *pki.Authority, serverCA []byte) (string, error) {
	cert, key, err := authority.Client("admin", adminUser, request.GroupMasters)
	if err != nil {
		return "", err
	}
	entry := kubeconfig.Entry{Server: url, CA: serverCA, User: adminUser, Certificate: cert, Key: key}
	data := entry.Text()
	file := filepath.Join(dataDir, kubeconfigFile)
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, data) {
		return file, nil
	}
	return file, pki.WriteFile(file, data, 0o600)
}
