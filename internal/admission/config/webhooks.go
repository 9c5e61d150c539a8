package config

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/egress/kubeconfig"
)

// WebhookAdmission is the configuration of MutatingAdmissionWebhook and
// ValidatingAdmissionWebhook.
type WebhookAdmission struct {
	metav1.TypeMeta `json:",inline"`
	// KubeConfigFile is the path of a kubeconfig that contains the credentials for webhooks, by host; "" means
	// no credentials.
	KubeConfigFile string `json:"kubeConfigFile"`
	// StaticManifestsDir is a directory with manifests of webhook configurations; "" means none.
	StaticManifestsDir string `json:"staticManifestsDir,omitempty"`
}

// read implements pluginConfig.
func (c *WebhookAdmission) read(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if err := decode(data, c, group+"/v1, WebhookAdmissionConfiguration", "apiserver.config.k8s.io/v1alpha1, WebhookAdmission"); err != nil {
		return err
	}
	if c.KubeConfigFile != "" && !filepath.IsAbs(c.KubeConfigFile) {
		return field.Invalid(field.NewPath("kubeConfigFile"), c.KubeConfigFile, "must be an absolute file path")
	}
	return validateManifestsDir(c.StaticManifestsDir)
}

// PolicyAdmission is the configuration of MutatingAdmissionPolicy and
// ValidatingAdmissionPolicy.
type PolicyAdmission struct {
	metav1.TypeMeta `json:",inline"`
	// StaticManifestsDir is a directory with manifests of policies and bindings; "" means none.
	StaticManifestsDir string `json:"staticManifestsDir,omitempty"`
}

// policyPluginConfig decodes a PolicyAdmission. The kind of the document is the plugin's name followed by
// "Configuration".
type policyPluginConfig struct {
	*PolicyAdmission
	plugin string
}

// read implements pluginConfig.
func (p policyPluginConfig) read(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if err := decode(data, p.PolicyAdmission, group+"/v1, "+p.plugin+"Configuration"); err != nil {
		return err
	}
	return validateManifestsDir(p.StaticManifestsDir)
}

// validateManifestsDir returns an error unless dir is empty or the absolute path of a directory.
func validateManifestsDir(dir string) error {
	if dir == "" {
		return nil
	}
	at := field.NewPath("staticManifestsDir")
	if !filepath.IsAbs(dir) {
		return field.Invalid(at, dir, "must be an absolute file path")
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return field.Invalid(at, dir, fmt.Sprintf("unable to read: %v", err))
	case !info.IsDir():
		return field.Invalid(at, dir, "must be a directory")
	}
	return nil
}

// ImagePolicyWebhook is the configuration of ImagePolicyWebhook.
type ImagePolicyWebhook struct {
	// Client calls the webhook at URL with the credentials from the kubeconfig.
	Client *http.Client
	URL    string
	// AllowTTL and DenyTTL are the cache lifetimes of responses; 0 disables the cache.
	AllowTTL, DenyTTL time.Duration
	// RetryBackoff is the delay before the second request to the webhook; 0 disables retries.
	RetryBackoff time.Duration
	// DefaultAllow admits pods if the webhook is unavailable.
	DefaultAllow bool
}

// read implements pluginConfig.
func (c *ImagePolicyWebhook) read(data []byte) error {
	var f struct {
		Policy struct {
			KubeConfigFile string `json:"kubeConfigFile"`
			AllowTTL       int64  `json:"allowTTL"`
			DenyTTL        int64  `json:"denyTTL"`
			RetryBackoff   int64  `json:"retryBackoff"`
			DefaultAllow   bool   `json:"defaultAllow"`
		} `json:"imagePolicy"`
	}
	if err := decodeFields(data, &f); err != nil {
		return err
	}
	p := &f.Policy
	var errs []error
	duration := func(name string, value int64, unit, least, most, fallback time.Duration) time.Duration {
		switch value {
		case -1: // disabled
			return 0
		case 0:
			return fallback
		}
		if value < 0 || value > int64(most/unit) || time.Duration(value)*unit <= least {
			errs = append(errs, fmt.Errorf("imagePolicy.%s: valid value is between %v and %v, got %d", name, least, most, value))
			return 0
		}
		return time.Duration(value) * unit
	}
	c.AllowTTL = duration("allowTTL", p.AllowTTL, time.Second, time.Second, 30*time.Minute, 5*time.Minute)
	c.DenyTTL = duration("denyTTL", p.DenyTTL, time.Second, time.Second, 30*time.Minute, 30*time.Second)
	c.RetryBackoff = duration("retryBackoff", p.RetryBackoff, time.Millisecond, 1, 5*time.Minute, 500*time.Millisecond)
	c.DefaultAllow = p.DefaultAllow
	if p.KubeConfigFile == "" {
		errs = append(errs, errors.New("imagePolicy.kubeConfigFile: Required value"))
	}
	if err := errors.Join(errs...); err != nil {
		return singleLine(err)
	}
	var err error
	c.Client, c.URL, err = kubeconfig.Client(p.KubeConfigFile, nil)
	return err
}
