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

// Export writes a serving certificate of this authority, followed by the authority's certificate, to
// apiserver.crt in dir, and the key of the serving certificate to apiserver.key. It creates dir if it does not
// exist. Files that already have this content are not written. Files of another authority, which an
// administrator may add at any time, are not replaced. A serving certificate that could not be stored because
// the disk is full is not exported. Export returns the errors of reads and writes.
func (a *Authority) Export(dir string, serving tls.Certificate) error {
	stored, err := a.load(servingName)
	if err != nil {
		return fmt.Errorf("export the serving certificate: %w", err)
	}
	if !stored.cert.Equal(serving.Leaf) {
		return nil // the certificate was not stored, because the disk is full
	}
	// writeFiles writes the certificate first, so that Issued recognizes it after a crash between the writes.
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

// hasContent reports whether the file c.name contains exactly c.data.
func hasContent(fsys files, c content) bool {
	current, err := fsys.read(c.name)
	return err == nil && bytes.Equal(current, c.data)
}
