package config

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/admission/podsecurity"
)

// PodSecurity is the configuration of PodSecurity.
type PodSecurity struct {
	// Defaults is the policy for namespaces without labels.
	Defaults   podsecurity.Policy
	Exemptions Exemptions
}

// Exemptions selects the requests that PodSecurity does not check.
type Exemptions struct {
	Usernames      []string `json:"usernames"`
	Namespaces     []string `json:"namespaces"`
	RuntimeClasses []string `json:"runtimeClasses"`
}

// podSecurityFile is a PodSecurityConfiguration.
type podSecurityFile struct {
	metav1.TypeMeta `json:",inline"`
	Defaults        struct {
		Enforce        string `json:"enforce"`
		EnforceVersion string `json:"enforce-version"`
		Audit          string `json:"audit"`
		AuditVersion   string `json:"audit-version"`
		Warn           string `json:"warn"`
		WarnVersion    string `json:"warn-version"`
	} `json:"defaults"`
	Exemptions Exemptions `json:"exemptions"`
}

// podSecurityKinds returns the accepted types of the configuration. The fields are the same in all versions.
func podSecurityKinds(versions ...string) []string {
	for i, version := range versions {
		versions[i] = "pod-security.admission.config.k8s.io/" + version + ", PodSecurityConfiguration"
	}
	return versions
}

// read implements pluginConfig.
func (c *PodSecurity) read(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	var f podSecurityFile
	if err := decode(data, &f, podSecurityKinds("v1", "v1beta1", "v1alpha1")...); err != nil {
		return err
	}
	var errs field.ErrorList
	level := func(name, level, version string) (parsed podsecurity.LevelVersion) {
		at := field.NewPath("defaults")
		var err error
		if level != "" {
			if parsed.Level, err = podsecurity.ParseLevel(level); err != nil {
				errs = append(errs, field.Invalid(at.Child(name), level, err.Error()))
			}
		}
		if version != "" {
			if parsed.Version, err = podsecurity.ParseVersion(version); err != nil {
				errs = append(errs, field.Invalid(at.Child(name+"-version"), version, err.Error()))
			}
		}
		return parsed
	}
	c.Defaults = podsecurity.Policy{
		Enforce: level("enforce", f.Defaults.Enforce, f.Defaults.EnforceVersion),
		Audit:   level("audit", f.Defaults.Audit, f.Defaults.AuditVersion),
		Warn:    level("warn", f.Defaults.Warn, f.Defaults.WarnVersion),
	}
	c.Exemptions = f.Exemptions
	return append(errs, c.Exemptions.validate(field.NewPath("exemptions"))...).ToAggregate()
}

func (e *Exemptions) validate(at *field.Path) field.ErrorList {
	notEmpty := func(name string, _ bool) []string {
		if name == "" {
			return []string{"must not be empty"}
		}
		return nil
	}
	var errs field.ErrorList
	for _, list := range []struct {
		name   string
		values []string
		check  validation.ValidateNameFunc
	}{
		{"namespaces", e.Namespaces, validation.ValidateNamespaceName},
		{"runtimeClasses", e.RuntimeClasses, validation.NameIsDNSSubdomain},
		{"usernames", e.Usernames, notEmpty},
	} {
		seen := make(map[string]bool)
		for i, value := range list.values {
			at := at.Child(list.name).Index(i)
			if problems := list.check(value, false); len(problems) > 0 {
				errs = append(errs, field.Invalid(at, value, strings.Join(problems, ", ")))
			} else if seen[value] {
				errs = append(errs, field.Duplicate(at, value))
			}
			seen[value] = true
		}
	}
	return errs
}
