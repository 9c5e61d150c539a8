package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"runtime"
)

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// readKey reads a private key and returns the key and its PEM encoding. It returns an error if the file has
// permissions for users other than the owner.
func readKey(fs files, file string) (*ecdsa.PrivateKey, []byte, error) {
	mode, err := fs.mode(file)
	if err != nil {
		return nil, nil, fmt.Errorf("read key: %w", err)
	}
	if runtime.GOOS != "windows" && mode&0o077 != 0 {
		return nil, nil, fmt.Errorf("read key: %s may be read by others (mode %04o); restrict access with: chmod 600 %s", file, mode, file)
	}
	data, err := fs.read(file)
	if err != nil {
		return nil, nil, fmt.Errorf("read key: %w", err)
	}
	key, err := parseKey(data)
	if err != nil {
		return nil, nil, fmt.Errorf("read key: %s: %w; restore the file, or remove it and the files derived from it to create new ones", file, err)
	}
	return key, data, nil
}

func parseKey(data []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("it contains no PEM block")
	}
	if block.Type == "EC PRIVATE KEY" {
		return x509.ParseECPrivateKey(block.Bytes)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the key is a %T, not an ECDSA key", key)
	}
	return ec, nil
}
