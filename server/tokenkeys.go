package server

import (
	"crypto"
	"fmt"
	"os"

	"mainstay.dev/mainstay/pki"
	"mainstay.dev/mainstay/serviceaccount"
)

// openTokenKeys loads the keys of service account tokens: those of the flags, or the
// data directory's own. What the signing key has signed is good with either.
func (h *Host) openTokenKeys() error {
	signer, err := h.tokenSigner()
	if err != nil {
		return err
	}
	var public []crypto.PublicKey
	for _, file := range h.config.ServiceAccountKeyFiles {
		keys, err := readKeyFile("--service-account-key-file", file, serviceaccount.ParsePublicKeys)
		if err != nil {
			return err
		}
		public = append(public, keys...)
	}
	h.tokenKeys, err = serviceaccount.NewKeys(signer, public...)
	return err
}

func (h *Host) tokenSigner() (crypto.Signer, error) {
	if file := h.config.ServiceAccountSigningKeyFile; file != "" {
		return readKeyFile("--service-account-signing-key-file", file, serviceaccount.ParsePrivateKey)
	}
	return pki.SigningKey(h.dir.pki())
}

func readKeyFile[T any](flag, file string, parse func([]byte) (T, error)) (T, error) {
	var none T
	data, err := os.ReadFile(file)
	if err != nil {
		return none, fmt.Errorf("read %s: %w", flag, err)
	}
	keys, err := parse(data)
	if err != nil {
		return none, fmt.Errorf("read %s: %s: %w", flag, file, err)
	}
	return keys, nil
}
