package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"slices"
)

// Issued reports whether this authority has signed the first certificate of a PEM file.
func (a *Authority) Issued(encoded []byte) bool {
	block, _ := pem.Decode(encoded)
	if block == nil {
		return false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	return err == nil && cert.CheckSignatureFrom(a.cert) == nil
}

// Export writes a serving certificate of this authority, followed by the authority's certificate,
// to apiserver.crt in dir, and its key to apiserver.key. It creates dir. Files that have this
// content already are not written. It returns the errors of reads and writes. A serving certificate
// that is not stored, because the disk is full, is not exported. Files of another authority, which an
// administrator may add at any time, are not replaced.
func (a *Authority) Export(dir string, serving tls.Certificate) error {
	stored, err := a.load(servingName)
	if err != nil {
		return fmt.Errorf("export the serving certificate: %w", err)
	}
	if !stored.cert.Equal(serving.Leaf) {
		return nil // it was not stored, because the disk is full
	}
	// The certificate is written first, so that Issued recognizes it after a crash between the two writes.
	cert := content{filepath.Join(dir, servingName+".crt"), slices.Concat(stored.certPEM, a.pem), 0o644}
	key := content{filepath.Join(dir, servingName+".key"), stored.keyPEM, 0o600}
	disk := system{}
	if hasContent(disk, cert) && hasContent(disk, key) {
		return nil
	}
	present, certErr := disk.read(cert.name)
	_, keyErr := disk.mode(key.name)
	if isForeign := certErr == nil && !a.Issued(present) || certErr != nil && keyErr == nil; isForeign {
		return nil
	}
	if err := ensureDir(disk, dir); err != nil {
		return err
	}
	return writeFiles(disk, cert, key)
}

// hasContent reports whether a file has a content.
func hasContent(fsys files, c content) bool {
	current, err := fsys.read(c.name)
	return err == nil && bytes.Equal(current, c.data)
}
