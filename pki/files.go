package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// ensureDir makes a folder that only its owner may enter.
func ensureDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder for keys and certificates: %w", err)
	}
	return nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// readKey reads a private key, which nobody but its owner may be able to read.
func readKey(file string) (*ecdsa.PrivateKey, []byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, nil, fmt.Errorf("read key: %w", err)
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o077 != 0 {
		return nil, nil, fmt.Errorf("read key: %s may be read by others (mode %04o); close it with: chmod 600 %s", file, mode, file)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("read key: %w", err)
	}
	key, err := parseKey(data)
	if err != nil {
		return nil, nil, fmt.Errorf("read key: %s: %w; restore the file, or remove it together with what was made from it to have both made anew", file, err)
	}
	return key, data, nil
}

func parseKey(data []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("it holds no PEM block")
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

// WriteFile replaces a file at once: whoever reads it finds the old content or
// the new one, also after a crash.
func WriteFile(file string, data []byte, mode os.FileMode) error {
	if err := replace(file, data, mode); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

func replace(file string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it is renamed
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	return err
}
