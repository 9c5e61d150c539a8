package host

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/filters/authn/serviceaccount"
	"mainstay.dev/mainstay/internal/filters/authn/serviceaccount/external"
	"mainstay.dev/mainstay/internal/host/pki"
)

// ServiceAccountKeysConfig selects the keys that sign and verify service account tokens.
type ServiceAccountKeysConfig struct {
	// SigningKeyFile contains the private key that signs tokens; "" selects the key in the data directory.
	SigningKeyFile string
	// KeyFiles contain additional keys that verify tokens.
	KeyFiles []string
	// SigningEndpoint is the socket of a program that signs tokens and provides the keys, instead of the
	// files; "" if there is none.
	SigningEndpoint string
}

func (c *ServiceAccountKeysConfig) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.SigningKeyFile, "service-account-signing-key-file", "", "private RSA or ECDSA key that signs service account tokens (default: the data directory's own)")
	fs.StringArrayVar(&c.KeyFiles, "service-account-key-file", nil, "additional RSA or ECDSA keys that verify service account tokens; may be repeated")
	fs.StringVar(&c.SigningEndpoint, "service-account-signing-endpoint", "", "socket of a program that signs service account tokens and provides the keys to verify them, instead of key files (ExternalJWTSigner of k8s.io/externaljwt)")
}

// check returns errors with the messages of kube-apiserver.
func (c *ServiceAccountKeysConfig) check() error {
	var errs []error
	if c.SigningEndpoint != "" && c.SigningKeyFile != "" {
		errs = append(errs, errors.New("service-account-signing-key-file and service-account-signing-endpoint are mutually exclusive and cannot be set at the same time"))
	}
	if c.SigningEndpoint != "" && len(c.KeyFiles) > 0 {
		errs = append(errs, errors.New("service-account-key-file and service-account-signing-endpoint are mutually exclusive and cannot be set at the same time"))
	}
	return errors.Join(errs...)
}

// serviceAccountKeys sign and verify service account tokens.
type serviceAccountKeys struct {
	serviceaccount.Keys
	external *external.Keys // nil if key files are used
}

// open opens the keys. If no signing key is configured, it uses the key in dir, which it creates if it does
// not exist. If a signing endpoint is configured, open blocks until the program at the endpoint responds, or
// ctx ends. maxExpiration is the configured maximum lifetime of tokens; 0 if there is none.
func (c *ServiceAccountKeysConfig) open(ctx context.Context, dir string, maxExpiration time.Duration, registerer prometheus.Registerer, logger *slog.Logger) (serviceAccountKeys, error) {
	if c.SigningEndpoint != "" {
		return c.openExternal(ctx, maxExpiration, registerer, logger)
	}
	var none serviceAccountKeys
	signer, err := c.signer(dir)
	if err != nil {
		return none, err
	}
	var public []crypto.PublicKey
	for _, file := range c.KeyFiles {
		keys, err := readFlagFile("--service-account-key-file", file, serviceaccount.ParsePublicKeys)
		if err != nil {
			return none, err
		}
		public = append(public, keys...)
	}
	keys, err := serviceaccount.NewKeys(signer, public...)
	return serviceAccountKeys{Keys: keys}, err
}

func (c *ServiceAccountKeysConfig) openExternal(ctx context.Context, maxExpiration time.Duration, registerer prometheus.Registerer, logger *slog.Logger) (serviceAccountKeys, error) {
	var none serviceAccountKeys
	metrics, err := external.NewMetrics(registerer)
	if err != nil {
		return none, err
	}
	keys, err := external.Open(ctx, external.Config{Socket: c.SigningEndpoint, Metrics: metrics, Logger: logger})
	if err != nil {
		return none, fmt.Errorf("--service-account-signing-endpoint: %w", err)
	}
	opened := serviceAccountKeys{Keys: keys, external: keys}
	if supported := keys.MaxLifetime(); maxExpiration > supported {
		return opened, fmt.Errorf("service-account-max-token-expiration cannot be set longer than the token expiration supported by service-account-signing-endpoint: %s > %s", maxExpiration, supported)
	}
	return opened, nil
}

func (c *ServiceAccountKeysConfig) signer(dir string) (crypto.Signer, error) {
	if c.SigningKeyFile != "" {
		return readFlagFile("--service-account-signing-key-file", c.SigningKeyFile, serviceaccount.ParsePrivateKey)
	}
	return pki.SigningKey(dir)
}

// maxLifetime returns the maximum lifetime of tokens that the keys allow; 0 if there is no limit.
func (k *serviceAccountKeys) maxLifetime() time.Duration {
	if k.external == nil {
		return 0
	}
	return k.external.MaxLifetime()
}

func (k *serviceAccountKeys) close() error {
	if k.external == nil {
		return nil
	}
	return k.external.Close()
}

// readFlagFile reads and parses the file of a flag.
func readFlagFile[T any](flag, file string, parse func([]byte) (T, error)) (T, error) {
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
