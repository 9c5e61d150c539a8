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

// Configuration is an EncryptionConfiguration of apiserver.config.k8s.io/v1.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`
	// Resources are looked through in order.
	Resources []ResourceRule `json:"resources"`
}

// ResourceRule specifies the encryption of some resources.
type ResourceRule struct {
	// Resources are "resource" or "resource.group"; "*.group" is all of a group, "*." all
	// of the core group, "*.*" all.
	Resources []string `json:"resources"`
	// Providers decrypt stored values; the first one encrypts.
	Providers []Provider `json:"providers"`
}

// Provider is one way to encrypt. One of its fields is set.
type Provider struct {
	AESGCM    *KeysConfig `json:"aesgcm,omitempty"`
	AESCBC    *KeysConfig `json:"aescbc,omitempty"`
	Secretbox *KeysConfig `json:"secretbox,omitempty"`
	Identity  *struct{}   `json:"identity,omitempty"`
	KMS       *KMSConfig  `json:"kms,omitempty"`
}

// KeysConfig is a provider with keys in the file. The first key writes, all read.
type KeysConfig struct {
	Keys []Key `json:"keys"`
}

// Key is a key. Its texts do not show the secret.
type Key struct {
	// Name is the prefix of the values encrypted with the key.
	Name string `json:"name"`
	// Secret is in base64.
	Secret string `json:"secret"`
}

func (k Key) String() string       { return fmt.Sprintf("Name: %s, Secret: [REDACTED]", k.Name) }
func (k Key) GoString() string     { return k.String() }
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// KMSConfig is a provider with a key in a plugin.
type KMSConfig struct {
	APIVersion string           `json:"apiVersion"`
	Name       string           `json:"name"`
	CacheSize  *int32           `json:"cachesize,omitempty"`
	Endpoint   string           `json:"endpoint"`
	Timeout    *metav1.Duration `json:"timeout,omitempty"` // 3s where it is left out
}

const (
	configKind    = "EncryptionConfiguration"
	configVersion = "apiserver.config.k8s.io/v1"

	defaultTimeout = 3 * time.Second
)

// Parse reads a configuration, in YAML or JSON, and validates it. Where the file is
// followed, which forbids some more, reload is set.
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

// errKMSv1 rejects the unsupported version 1.
func errKMSv1(name string) error {
	return errors.New("KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead.  " +
		"KMSv1 is not supported: use a kube-apiserver to re-encrypt the values of provider " + name + " has encrypted with another provider first")
}
