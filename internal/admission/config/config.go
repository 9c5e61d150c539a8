// Package config reads the configuration of admission plugins: an AdmissionConfiguration of
// apiserver.config.k8s.io/v1, which contains the configuration of each plugin or the path of a file that
// contains it.
package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Config is the configuration of all plugins. The zero value contains the defaults of a server
// without a configuration file.
type Config struct {
	PodSecurity              PodSecurity
	EventRateLimit           EventRateLimit
	PodNodeSelector          PodNodeSelector
	PodTolerationRestriction PodTolerationRestriction
	ImagePolicyWebhook       ImagePolicyWebhook
	ResourceQuota            ResourceQuota
	// Both webhook plugins have the same kind of configuration, and so do both policy plugins.
	MutatingAdmissionWebhook, ValidatingAdmissionWebhook WebhookAdmission
	MutatingAdmissionPolicy, ValidatingAdmissionPolicy   PolicyAdmission

	configured []string
}

// Configured returns the names of the plugins in the configuration file, in the order of the file. The slice is
// shared and must not be modified.
func (c *Config) Configured() []string { return c.configured }

// HasManifests reports whether any webhook or policy plugin reads objects from a directory of manifests.
func (c *Config) HasManifests() bool {
	return c.MutatingAdmissionWebhook.StaticManifestsDir+c.ValidatingAdmissionWebhook.StaticManifestsDir+
		c.MutatingAdmissionPolicy.StaticManifestsDir+c.ValidatingAdmissionPolicy.StaticManifestsDir != ""
}

// pluginConfig is the configuration of one plugin.
type pluginConfig interface {
	// read decodes the plugin's configuration. data is empty if the AdmissionConfiguration contains only the
	// plugin's name.
	read(data []byte) error
}

// pluginConfig returns the configuration of a plugin, or nil if the plugin is not configurable.
func (c *Config) pluginConfig(plugin string) pluginConfig {
	switch plugin {
	case "PodSecurity":
		return &c.PodSecurity
	case "EventRateLimit":
		return &c.EventRateLimit
	case "PodNodeSelector":
		return &c.PodNodeSelector
	case "PodTolerationRestriction":
		return &c.PodTolerationRestriction
	case "ImagePolicyWebhook":
		return &c.ImagePolicyWebhook
	case "ResourceQuota":
		return &c.ResourceQuota
	case "MutatingAdmissionWebhook":
		return &c.MutatingAdmissionWebhook
	case "ValidatingAdmissionWebhook":
		return &c.ValidatingAdmissionWebhook
	case "MutatingAdmissionPolicy":
		return policyPluginConfig{&c.MutatingAdmissionPolicy, plugin}
	case "ValidatingAdmissionPolicy":
		return policyPluginConfig{&c.ValidatingAdmissionPolicy, plugin}
	}
	return nil
}

// group is the API group of most configurations.
const group = "apiserver.config.k8s.io"

type admissionConfiguration struct {
	metav1.TypeMeta `json:",inline"`
	Plugins         []entry `json:"plugins"`
}

// entry is one plugin of an AdmissionConfiguration.
type entry struct {
	Name string `json:"name"`
	// Path is the file with the configuration; a relative path is resolved against the directory of
	// the AdmissionConfiguration. Configuration takes precedence over Path.
	Path          string          `json:"path,omitempty"`
	Configuration json.RawMessage `json:"configuration,omitempty"`
}

// readInto decodes the configuration of a plugin into part. The configuration may be empty.
func (e *entry) readInto(part pluginConfig, dir string) error {
	if len(e.Configuration) > 0 && string(e.Configuration) != "null" {
		return part.read(e.Configuration)
	}
	if e.Path == "" {
		return part.read(nil)
	}
	path := e.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := part.read(data); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Read reads an AdmissionConfiguration and the files that it references. For an empty path, it
// returns the zero Config. Errors contain the path and have no line breaks.
func Read(path string) (*Config, error) {
	c := &Config{}
	if path == "" {
		return c, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the admission configuration: %w", err)
	}
	if err := c.read(data, filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("read the admission configuration %s: %w", path, err)
	}
	return c, nil
}

// read decodes an AdmissionConfiguration. Relative paths are resolved against dir.
func (c *Config) read(data []byte, dir string) error {
	var f admissionConfiguration
	if err := decode(data, &f, group+"/v1, AdmissionConfiguration", "apiserver.k8s.io/v1alpha1, AdmissionConfiguration"); err != nil {
		return err
	}
	for _, p := range f.Plugins {
		if slices.Contains(c.configured, p.Name) {
			return fmt.Errorf("plugin %s is configured twice", p.Name)
		}
		part := c.pluginConfig(p.Name)
		if part == nil {
			return fmt.Errorf("plugin %q has no configuration", p.Name)
		}
		if err := p.readInto(part, dir); err != nil {
			return fmt.Errorf("plugin %s: %w", p.Name, err)
		}
		c.configured = append(c.configured, p.Name)
	}
	return nil
}

// decode strictly decodes a YAML document. kinds lists the accepted types in the form "VERSION, KIND"; error
// messages recommend the first one.
func decode(data []byte, into any, kinds ...string) error {
	var found metav1.TypeMeta
	if err := yaml.Unmarshal(data, &found); err != nil {
		return singleLine(err)
	}
	if !slices.Contains(kinds, found.APIVersion+", "+found.Kind) {
		return fmt.Errorf("unsupported type %q, %q; must be %s", found.APIVersion, found.Kind, kinds[0])
	}
	return decodeFields(data, into)
}

// decodeFields strictly decodes a YAML document that has no kind.
func decodeFields(data []byte, into any) error { return singleLine(yaml.UnmarshalStrict(data, into)) }

// singleLine removes the line breaks from the message of an error.
func singleLine(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}
