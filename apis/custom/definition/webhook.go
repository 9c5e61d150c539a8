package definition

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// webhook validates the client config of a conversion webhook.
func (v *validator) webhook(config *apiextensions.WebhookClientConfig, at *field.Path) {
	switch {
	case config == nil:
		v.add(field.Required(at, "required when strategy is set to Webhook"))
		return
	case (config.URL == nil) == (config.Service == nil):
		v.add(field.Required(at, "exactly one of url or service is required"))
	case config.URL != nil:
		v.webhookURL(*config.URL, at.Child("url"))
	default:
		v.webhookService(config.Service, at.Child("service"))
	}
	if len(config.CABundle) > 0 && v.requireCABundle() {
		if fault := caBundleFault(config.CABundle); fault != nil {
			v.add(field.Invalid(at.Child("caBundle"), config.CABundle, fault.Error()))
		}
	}
}

func (v *validator) webhookURL(text string, at *field.Path) {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(text)
	if err != nil {
		v.add(field.Required(at, "url must be a valid URL: "+err.Error()+form))
		return
	}
	if u.Scheme != "https" {
		v.add(field.Invalid(at, u.Scheme, "'https' is the only allowed URL scheme"+form))
	}
	if u.Host == "" {
		v.add(field.Invalid(at, u.Host, "host must be specified"+form))
	}
	if u.User != nil {
		v.add(field.Invalid(at, u.User.String(), "user information is not permitted in the URL"))
	}
	if u.Fragment != "" {
		v.add(field.Invalid(at, u.Fragment, "fragments are not permitted in the URL"))
	}
	if u.RawQuery != "" {
		v.add(field.Invalid(at, u.RawQuery, "query parameters are not permitted in the URL"))
	}
}

func (v *validator) webhookService(service *apiextensions.ServiceReference, at *field.Path) {
	if service.Name == "" {
		v.add(field.Required(at.Child("name"), ""))
	}
	if service.Namespace == "" {
		v.add(field.Required(at.Child("namespace"), ""))
	}
	if faults := utilvalidation.IsValidPortNum(int(service.Port)); len(faults) > 0 {
		v.add(field.Invalid(at.Child("port"), service.Port, "port is not valid: "+strings.Join(faults, ", ")))
	}
	if service.Path != nil {
		v.webhookPath(*service.Path, at.Child("path"))
	}
}

// webhookPath validates the path at a service, whose segments must be DNS-1123 subdomains.
func (v *validator) webhookPath(path string, at *field.Path) {
	if path == "" || path == "/" {
		return
	}
	if path == "//" {
		v.add(field.Invalid(at, path, "segment[0] may not be empty"))
		return
	}
	if !strings.HasPrefix(path, "/") {
		v.add(field.Invalid(at, path, "must start with a '/'"))
	}
	// As kube-apiserver: the first byte is not looked at, slash or not.
	i := 0
	for segment := range strings.SplitSeq(strings.TrimSuffix(path[1:], "/"), "/") {
		if segment == "" {
			v.add(field.Invalid(at, path, fmt.Sprintf("segment[%d] may not be empty", i)))
		} else {
			for _, fault := range utilvalidation.IsDNS1123Subdomain(segment) {
				v.add(field.Invalid(at, path, fmt.Sprintf("segment[%d]: %v", i, fault)))
			}
		}
		i++
	}
}

// requireCABundle reports whether the CA bundle must be valid: once the definition is
// established, unless it was invalid before.
func (v *validator) requireCABundle() bool {
	return v.old != nil && IsTrue(v.old, apiextensionsv1.Established) && !InvalidCABundle(v.old)
}

// InvalidCABundle reports whether a definition has a conversion webhook whose
// certificates cannot be read.
func InvalidCABundle(crd *apiextensionsv1.CustomResourceDefinition) bool {
	c := crd.Spec.Conversion
	if c == nil || c.Webhook == nil || c.Webhook.ClientConfig == nil || len(c.Webhook.ClientConfig.CABundle) == 0 {
		return false
	}
	return caBundleFault(c.Webhook.ClientConfig.CABundle) != nil
}

// caBundleFault returns why a bundle holds no certificate authority, in the words
// of kube-apiserver; nil where it holds one.
func caBundleFault(bundle []byte) error {
	if len(bundle) == 0 || x509.NewCertPool().AppendCertsFromPEM(bundle) {
		return nil
	}
	const loading = "unable to load root certificates: "
	for rest := bundle; len(rest) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return errors.New(loading + "unable to parse bytes as PEM block")
		}
		if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf(loading+"failed to parse certificate: %w", err)
		}
	}
	return errors.New(loading + "no valid certificate authority data seen")
}

// requireKnownReview reports whether one of the review versions must be known: unless none
// was before.
func (v *validator) requireKnownReview() bool {
	if v.old == nil || v.old.Spec.Conversion == nil || v.old.Spec.Conversion.Webhook == nil {
		return true
	}
	before := v.old.Spec.Conversion.Webhook.ConversionReviewVersions
	return len(before) == 0 || hasKnownReview(before)
}

func hasKnownReview(versions []string) bool {
	return slices.Contains(versions, "v1") || slices.Contains(versions, "v1beta1")
}
