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

const kubeconfigTemplate = `apiVersion: v1
kind: Config
clusters:
- name: mainstay
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: kubernetes-admin
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: mainstay
  context:
    cluster: mainstay
    user: kubernetes-admin
current-context: mainstay
`

// writeKubeconfig writes the administrator's kubeconfig for a URL, if the file
// differs, and returns its path.
func writeKubeconfig(dataDir, url string, authority *pki.Authority, serverCA []byte) (string, error) {
	cert, key, err := authority.Client("admin", adminUser, request.GroupMasters)
	if err != nil {
		return "", err
	}
	encode := base64.StdEncoding.EncodeToString
	data := fmt.Appendf(nil, kubeconfigTemplate, strconv.Quote(url), encode(serverCA), encode(cert), encode(key))
	file := filepath.Join(dataDir, kubeconfigFile)
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, data) {
		return file, nil
	}
	return file, pki.WriteFile(file, data, 0o600)
}
