package validation

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/internal/rest/names"
)

// Maximum lengths in signer names. A signer name consists of a domain and a path, and the path can contain the
// names of a namespace and of an object.
const (
	maxSignerDomain = validation.DNS1123SubdomainMaxLength
	maxSignerName   = maxSignerDomain + 1 + validation.DNS1123LabelMaxLength + 1 + validation.DNS1123SubdomainMaxLength
)

// SignerName requires a signer name, which consists of a domain and a path, such as example.com/signer.
func (f Field) SignerName(name string) {
	if name == "" {
		f.Required("")
		return
	}
	domain, path, ok := strings.Cut(name, "/")
	if !ok || strings.Contains(path, "/") {
		f.Invalid(name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")
		return
	}
	if len(domain) > maxSignerDomain {
		f.TooLong(maxSignerDomain)
	}
	f.signerPart(domain, names.IsLabel, validation.IsDNS1123Label)
	if !strings.Contains(domain, ".") {
		f.Invalid(domain, "should be a domain with at least two segments separated by dots")
	}
	f.signerPart(path, names.IsSubdomain, validation.IsDNS1123Subdomain)
	if len(name) > maxSignerName {
		f.TooLong(maxSignerName)
	}
}

// signerPart reports an error for the first label in part that plain rejects. The error message is that of
// check.
func (f Field) signerPart(part string, plain func(string) bool, check func(string) []string) {
	for label := range strings.SplitSeq(part, ".") {
		if plain(label) {
			continue
		}
		for _, problem := range check(label) {
			f.Invalid(part, fmt.Sprintf("validating label %q: %s", label, problem))
		}
		return
	}
}
