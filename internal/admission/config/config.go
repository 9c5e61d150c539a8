// Package config reads the configuration of admission plugins: an AdmissionConfiguration of
// apiserver.config.k8s.io/v1, which contains the configuration of each plugin or the name of a file
// with it.
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

// Config is the configuration of all plugins. The zero value is that of a server
// without such a file.
type Config struct {
	PodSecurity              PodSecurity
	EventRateLimit           EventRateLimit
	PodNodeSelector          PodNodeSelector
	PodTolerationRestriction PodTolerationRestriction
	ImagePolicyWebhook       ImagePolicyWebhook
	ResourceQuota            ResourceQuota
	// Both webhook plugins have a file of this kind.
	MutatingAdmissionWebhook, ValidatingAdmissionWebhook WebhookAdmission
	MutatingAdmissionPolicy, ValidatingAdmissionPolicy   PolicyAdmission

	configured []string
}

// Configured returns the plugins that the files name, in their order.
func (c *Config) Configured() []string { return c.configured }

// HasManifests reports whether a plugin is to take up objects of files.
func (c *Config) HasManifests() bool {
	return c.MutatingAdmissionWebhook.StaticManifestsDir+c.ValidatingAdmissionWebhook.StaticManifestsDir+
		c.MutatingAdmissionPolicy.StaticManifestsDir+c.ValidatingAdmissionPolicy.StaticManifestsDir != ""
}

// part is the configuration of one plugin.
type part interface {
	// read decodes the plugin's configuration, which is empty if the file only contains the
	// plugin's name.
	read(data []byte) error
}

// part returns the configuration of a plugin, or nil if the plugin is not configurable.
func (c *Config) part(plugin string) part {
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
		return policyPart{&c.MutatingAdmissionPolicy, plugin}
	case "ValidatingAdmissionPolicy":
		return policyPart{&c.ValidatingAdmissionPolicy, plugin}
	}
	return nil
}

// group is that of most configurations.
const group = "apiserver.config.k8s.io"

// file is an AdmissionConfiguration.
type file struct {
	metav1.TypeMeta `json:",inline"`
	Plugins         []entry `json:"plugins"`
}

// entry is one plugin of an AdmissionConfiguration.
type entry struct {
	Name string `json:"name"`
	// Path is a file; a relative one begins at this one's folder. Configuration is used
	// instead of it.
	Path          string          `json:"path,omitempty"`
	Configuration json.RawMessage `json:"configuration,omitempty"`
}

// readInto decodes the configuration of a plugin, which may be empty.
func (e *entry) readInto(part part, dir string) error {
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

// Read reads the AdmissionConfiguration in a file, and the files that it names. Of a
// path that is empty it is the zero Config. The error is one line, and names the file.
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

// read reads an AdmissionConfiguration. Relative paths begin at dir.
func (c *Config) read(data []byte, dir string) error {
	var f file
	if err := decode(data, &f, group+"/v1, AdmissionConfiguration", "apiserver.k8s.io/v1alpha1, AdmissionConfiguration"); err != nil {
		return err
	}
	for _, p := range f.Plugins {
		if slices.Contains(c.configured, p.Name) {
			return fmt.Errorf("plugin %s is configured twice", p.Name)
		}
		part := c.part(p.Name)
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

// decode reads a document that is of one of some kinds, as "VERSION, KIND"; the first
// one is the one to use. It may have no field that the value has not.
func decode(data []byte, into any, kinds ...string) error {
	var found metav1.TypeMeta
	if err := yaml.Unmarshal(data, &found); err != nil {
		return oneLine(err)
	}
	if !slices.Contains(kinds, found.APIVersion+", "+found.Kind) {
		return fmt.Errorf("it is %q, %q; it must be %s", found.APIVersion, found.Kind, kinds[0])
	}
	return decodeFields(data, into)
}

// decodeFields is decode for documents that have no kind.
func decodeFields(data []byte, into any) error { return oneLine(yaml.UnmarshalStrict(data, into)) }

// oneLine returns an error of the YAML reader without the line breaks that it has
// where there is more than one.
func oneLine(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}
