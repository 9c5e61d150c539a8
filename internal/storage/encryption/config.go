package encryption

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Configuration is an EncryptionConfiguration of apiserver.config.k8s.io/v1. Parse returns a validated
// Configuration with defaults.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`
	// Resources are the rules. A rule must not follow a wildcard rule that includes its resource. The
	// providers of several rules for one resource are combined.
	Resources []ResourceRule `json:"resources"`
}

// ResourceRule specifies the encryption of some resources.
type ResourceRule struct {
	// Resources are names such as "secrets" or "deployments.apps". The wildcard "*.group" selects
	// all resources of a group, "*." all resources of the core group, and "*.*" all resources.
	Resources []string `json:"resources"`
	// Providers decrypt stored values; the first one encrypts.
	Providers []Provider `json:"providers"`
}

// Provider specifies the cipher and keys of a rule. Exactly one field is set.
type Provider struct {
	AESGCM    *KeysConfig `json:"aesgcm,omitempty"`
	AESCBC    *KeysConfig `json:"aescbc,omitempty"`
	Secretbox *KeysConfig `json:"secretbox,omitempty"`
	Identity  *struct{}   `json:"identity,omitempty"`
	KMS       *KMSConfig  `json:"kms,omitempty"`
}

// KeysConfig is a provider with its keys in the file. The first key encrypts; all keys decrypt.
type KeysConfig struct {
	Keys []Key `json:"keys"`
}

// Key is a named secret. Its formatted output, including %#v and logs, does not contain the secret.
type Key struct {
	// Name is part of the prefix of values that are encrypted with the key.
	Name string `json:"name"`
	// Secret is the key in base64: 16, 24 or 32 bytes for AES, 32 bytes for secretbox.
	Secret string `json:"secret"`
}

func (k Key) String() string       { return fmt.Sprintf("Name: %s, Secret: [REDACTED]", k.Name) }
func (k Key) GoString() string     { return k.String() }
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// KMSConfig is a provider whose key is managed by a KMS plugin.
type KMSConfig struct {
	APIVersion string           `json:"apiVersion"`
	Name       string           `json:"name"`
	CacheSize  *int32           `json:"cachesize,omitempty"`
	Endpoint   string           `json:"endpoint"`
	Timeout    *metav1.Duration `json:"timeout,omitempty"` // timeout of each call; nil means 3 s
}

const (
	configKind    = "EncryptionConfiguration"
	configVersion = "apiserver.config.k8s.io/v1"

	defaultTimeout = 3 * time.Second
)

// Parse decodes a configuration in YAML or JSON, sets defaults, and validates it. reload must be set
// if the file is reloaded after changes; additional rules apply in this case. The errors have
// kube-apiserver's text and contain no secrets.
func Parse(data []byte, reload bool) (*Configuration, error) {
	c, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("error decoding encryption provider configuration: %w", err)
	}
	if c.Kind != configKind || c.APIVersion != configVersion {
		return nil, fmt.Errorf("got unexpected config type: it is a %q of %q, and must be an %s of %s", c.Kind, c.APIVersion, configKind, configVersion)
	}
	c.setDefaults()
	if err := c.validate(reload).ToAggregate(); err != nil {
		return nil, err
	}
	return c, nil
}

func decode(data []byte) (*Configuration, error) {
	document, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, err
	}
	c := new(Configuration)
	strict, err := kjson.UnmarshalStrict(document, c)
	if err != nil {
		return nil, err
	}
	if len(strict) > 0 {
		return nil, runtime.NewStrictDecodingError(strict)
	}
	return c, nil
}

func (c *Configuration) setDefaults() {
	for i := range c.Resources {
		for _, p := range c.Resources[i].Providers {
			if p.KMS != nil && p.KMS.Timeout == nil {
				p.KMS.Timeout = &metav1.Duration{Duration: defaultTimeout}
			}
		}
	}
}

// errKMSv1 returns the error for a provider with the unsupported KMS version 1.
func errKMSv1(name string) error {
	return errors.New("KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead.  " +
		"KMSv1 is not supported: use a kube-apiserver to re-encrypt the values of provider " + name + " has encrypted with another provider first")
}
