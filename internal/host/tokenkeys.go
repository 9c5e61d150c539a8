package host

import (
	"context"
	"crypto"
	"fmt"
	"os"

	"mainstay.dev/mainstay/internal/host/pki"
	"mainstay.dev/mainstay/internal/serviceaccount"
	"mainstay.dev/mainstay/internal/serviceaccount/external"
)

// openTokenKeys opens the keys of service account tokens: those of another program, of the flags,
// or of the data directory.
func (h *Host) openTokenKeys(ctx context.Context) error {
	if h.config.ServiceAccountSigningEndpoint != "" {
		return h.openExternalKeys(ctx)
	}
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

// openExternalKeys waits for the signing program, whose capabilities are unknown before.
func (h *Host) openExternalKeys(ctx context.Context) error {
	metrics, err := external.NewMetrics(h.registry)
	if err != nil {
		return err
	}
	h.externalKeys, err = external.Open(ctx, external.Config{Socket: h.config.ServiceAccountSigningEndpoint, Metrics: metrics, Logger: h.logger})
	if err != nil {
		return fmt.Errorf("--service-account-signing-endpoint: %w", err)
	}
	h.tokenKeys = h.externalKeys
	if wanted, most := h.config.ServiceAccountMaxTokenExpiration, h.externalKeys.MaxLifetime(); wanted > most {
		return fmt.Errorf("service-account-max-token-expiration cannot be set longer than the token expiration supported by service-account-signing-endpoint: %s > %s", wanted, most)
	}
	return nil
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
