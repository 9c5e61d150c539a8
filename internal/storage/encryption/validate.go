package encryption

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// allResources is the resource of the wildcard "*.*".
var allResources = schema.GroupResource{Group: "*", Resource: "*"}

// validate returns the errors of a configuration, with kube-apiserver's messages. The messages never contain
// a secret.
func (c *Configuration) validate(reload bool) field.ErrorList {
	root := field.NewPath("resources")
	if len(c.Resources) == 0 {
		return field.ErrorList{required(root, root.String())}
	}
	var errs field.ErrorList
	names := map[string]bool{} // names of KMS providers
	for i := range c.Resources {
		rule, at := &c.Resources[i], root.Index(i)
		errs = append(errs, rule.validateResources(at.Child("resources"))...)
		if len(rule.Providers) == 0 {
			errs = append(errs, required(at.Child("providers"), at.Child("providers").String()))
		}
		for j := range rule.Providers {
			errs = append(errs, rule.Providers[j].validate(at.Child("providers").Index(j), names, reload)...)
		}
	}
	return errs
}

func required(at *field.Path, name string) *field.Error {
	return field.Required(at, fmt.Sprintf("at least one %s is required", name))
}

func (r *ResourceRule) validateResources(at *field.Path) (errs field.ErrorList) {
	if len(r.Resources) == 0 {
		errs = append(errs, required(at, at.String()))
	}
	repeated, masked := overlaps(r.Resources)
	if repeated {
		errs = append(errs, field.Invalid(at, r.Resources, "the same resource cannot be specified multiple times"))
	}
	if masked {
		errs = append(errs, field.Invalid(at, r.Resources, "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked"))
	}
	for i, name := range r.Resources {
		if fault := validateResourceName(name); fault != "" {
			errs = append(errs, field.Invalid(at.Index(i), name, fault))
		}
	}
	return errs
}

// overlaps reports whether a list has duplicates, and whether it contains both a wildcard and a resource that
// the wildcard includes.
func overlaps(names []string) (repeated, masked bool) {
	seen := map[schema.GroupResource]bool{}
	for _, name := range names {
		resource := schema.ParseGroupResource(name)
		repeated = repeated || seen[resource]
		seen[resource] = true
	}
	groups := map[string]int{}
	for resource := range seen {
		groups[resource.Group]++
	}
	for resource := range seen {
		switch {
		case resource == allResources:
			masked = masked || len(seen) > 1
		case resource.Resource == "*":
			masked = masked || groups[resource.Group] > 1
		}
	}
	return repeated, masked
}

// validateResourceName returns the error message for an invalid name, or "" for a valid name.
func validateResourceName(name string) string {
	resource := schema.ParseGroupResource(name)
	switch {
	case strings.ToLower(name) != name:
		return "resource name should not contain capital letters"
	case name == "*":
		return "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
	case name == "apiserveripinfo" || name == "serviceipallocations" || name == "servicenodeportallocations":
		return "resources which do not have REST API/s cannot be encrypted"
	case resource.Group == "events.k8s.io":
		return "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file"
	case resource.Group == "extensions":
		return "'extensions' group has been removed and cannot be used for encryption"
	case resource.Group == "*" && resource.Resource != "*":
		return "encrypting the same resource across groups is not supported"
	}
	return ""
}

// validate returns the errors of a provider, and adds the name of a KMS provider to names.
func (p *Provider) validate(at *field.Path, names map[string]bool, reload bool) (errs field.ErrorList) {
	found := 0
	for _, set := range []bool{p.KMS != nil, p.AESGCM != nil, p.AESCBC != nil, p.Secretbox != nil, p.Identity != nil} {
		if set {
			found++
		}
	}
	switch {
	case found == 0:
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity"))
	case found > 1:
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, "more than one provider specified in a single element, should split into different list elements"))
	}
	switch {
	case p.KMS != nil:
		errs = append(errs, p.KMS.validate(at.Child("kms"), names, reload)...)
		names[p.KMS.Name] = true
	case p.AESGCM != nil:
		errs = append(errs, p.AESGCM.validate(at.Child("aesgcm", "keys"), 16, 24, 32)...)
	case p.AESCBC != nil:
		errs = append(errs, p.AESCBC.validate(at.Child("aescbc", "keys"), 16, 24, 32)...)
	case p.Secretbox != nil:
		errs = append(errs, p.Secretbox.validate(at.Child("secretbox", "keys"), 32)...)
	}
	return errs
}

func (c *KeysConfig) validate(at *field.Path, sizes ...int) (errs field.ErrorList) {
	if len(c.Keys) == 0 {
		errs = append(errs, required(at, "keys"))
	}
	for i := range c.Keys {
		key, at := &c.Keys[i], at.Index(i)
		if key.Name == "" {
			errs = append(errs, mandatory(at.Child("name"), "name", "key"))
		}
		if key.Secret == "" {
			errs = append(errs, mandatory(at.Child("secret"), "secret", "key"))
			continue
		}
		secret, err := base64.StdEncoding.DecodeString(key.Secret)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(at.Child("secret"), "REDACTED", "secrets must be base64 encoded"))
		case !slices.Contains(sizes, len(secret)):
			errs = append(errs, field.Invalid(at.Child("secret"), "REDACTED", fmt.Sprintf("secret is not of the expected length, got %d, expected one of %v", len(secret), sizes)))
		}
	}
	return errs
}

func mandatory(at *field.Path, name, kind string) *field.Error {
	return field.Required(at, fmt.Sprintf("%s is a mandatory field for a %s", name, kind))
}

func (c *KMSConfig) validate(at *field.Path, names map[string]bool, reload bool) (errs field.ErrorList) {
	errs = append(errs, c.validateName(at.Child("name"), names, reload)...)
	if c.Timeout.Duration <= 0 {
		errs = append(errs, field.Invalid(at.Child("timeout"), c.Timeout.Duration.String(), "timeout should be a positive value"))
	}
	errs = append(errs, c.validateEndpoint(at.Child("endpoint"))...)
	switch {
	case c.CacheSize == nil:
	case c.APIVersion != "v1":
		errs = append(errs, field.Invalid(at.Child("cachesize"), *c.CacheSize, "cachesize is not supported in v2"))
	case *c.CacheSize == 0:
		errs = append(errs, field.Invalid(at.Child("cachesize"), *c.CacheSize, "cachesize should be a positive value, or negative to disable"))
	}
	if c.APIVersion != "v1" && c.APIVersion != "v2" {
		errs = append(errs, field.Invalid(at.Child("apiVersion"), c.APIVersion, "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported")) // kube-apiserver's message also repeats the word
	}
	return errs
}

func (c *KMSConfig) validateName(at *field.Path, names map[string]bool, reload bool) (errs field.ErrorList) {
	if c.Name == "" {
		errs = append(errs, mandatory(at, "name", "provider"))
	}
	if c.APIVersion != "v1" && strings.Contains(c.Name, ":") {
		errs = append(errs, field.Invalid(at, c.Name, fmt.Sprintf("invalid KMS provider name %s, must not contain ':'", c.Name)))
	}
	if (reload || c.APIVersion != "v1") && names[c.Name] {
		errs = append(errs, field.Invalid(at, c.Name, fmt.Sprintf("duplicate KMS provider name %s, names must be unique", c.Name)))
	}
	return errs
}

func (c *KMSConfig) validateEndpoint(at *field.Path) field.ErrorList {
	if c.Endpoint == "" {
		return field.ErrorList{field.Invalid(at, "", "endpoint is a mandatory field for a kms")}
	}
	u, err := url.Parse(c.Endpoint)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(at, c.Endpoint, fmt.Sprintf("invalid endpoint for kms provider, error: %v", err))}
	case u.Scheme != "unix":
		return field.ErrorList{field.Invalid(at, c.Endpoint, fmt.Sprintf("unsupported scheme %q for KMS provider, only unix is supported", u.Scheme))}
	}
	return nil
}
