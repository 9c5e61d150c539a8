package pki

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
)

// ParseRequest parses a certificate request (PKCS #10) in PEM. It does not verify the signature. It
// returns an error if text does not contain such a request.
func ParseRequest(text []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}
