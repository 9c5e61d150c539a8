package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// Limits for resolv.conf.
const (
	maxNameservers = 3
	maxSearches    = 32
	maxSearchChars = 2048
)

// validateDNS validates the DNS policy and configuration. If the policy is None, nameservers are required.
func (p *pod) validateDNS(f validation.Field) {
	policy, config := p.spec.DNSPolicy, p.spec.DNSConfig
	if policy == "" {
		f.Child("dnsPolicy").Required("")
	} else {
		validation.OneOf(f.Child("dnsPolicy"), policy,
			corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)
	}
	at := f.Child("dnsConfig")
	if policy == corev1.DNSNone {
		if config == nil {
			at.Required("must provide `dnsConfig` when `dnsPolicy` is None")
		} else if len(config.Nameservers) == 0 {
			at.Child("nameservers").Required("must provide at least one DNS nameserver when `dnsPolicy` is None")
		}
	}
	if config == nil {
		return
	}
	var old []string
	if p.old != nil && p.old.DNSConfig != nil {
		old = p.old.DNSConfig.Nameservers
	}
	if len(config.Nameservers) > maxNameservers {
		at.Child("nameservers").Invalid(config.Nameservers, "must not have more than 3 nameservers")
	}
	for i, server := range config.Nameservers {
		at.Child("nameservers").Index(i).IP(server, old...)
	}
	validateSearches(at.Child("searches"), config.Searches)
	for i := range config.Options {
		if config.Options[i].Name == "" {
			at.Child("options").Index(i).Required("must not be empty")
		}
	}
}

// validateSearches validates search domains. They may contain underscores and end with a dot.
func validateSearches(f validation.Field, searches []string) {
	if len(searches) > maxSearches {
		f.Invalid(searches, "must not have more than 32 search paths")
	}
	chars := max(0, len(searches)-1)
	for i, search := range searches {
		chars += len(search)
		if search == "." {
			continue
		}
		domain := strings.TrimSuffix(search, ".")
		if problems := apivalidation.IsDNS1123SubdomainWithUnderscore(domain); len(problems) > 0 {
			f.Index(i).InvalidFor(domain, problems)
		}
	}
	if chars > maxSearchChars {
		f.Invalid(searches, "must not have more than 2048 characters (including spaces) in the search list")
	}
}
