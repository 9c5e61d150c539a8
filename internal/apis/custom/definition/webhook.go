package definition

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/egress/webhook"
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
		v.add(webhook.ValidateURL(*config.URL, at.Child("url"))...)
	default:
		service := config.Service
		v.add(webhook.ValidateService(service.Name, service.Namespace, service.Path, service.Port, at.Child("service"))...)
	}
	if len(config.CABundle) > 0 && v.requireCABundle() {
		if fault := caBundleFault(config.CABundle); fault != nil {
			v.add(field.Invalid(at.Child("caBundle"), config.CABundle, fault.Error()))
		}
	}
}

// requireCABundle reports whether the CA bundle must be valid. This is the case if the old definition is
// established and its bundle is valid.
func (v *validator) requireCABundle() bool {
	return v.old != nil && IsTrue(v.old, apiextensionsv1.Established) && !InvalidCABundle(v.old)
}

// InvalidCABundle reports whether a definition has a conversion webhook with an invalid CA bundle. An
// empty bundle is valid.
func InvalidCABundle(crd *apiextensionsv1.CustomResourceDefinition) bool {
	c := crd.Spec.Conversion
	if c == nil || c.Webhook == nil || c.Webhook.ClientConfig == nil || len(c.Webhook.ClientConfig.CABundle) == 0 {
		return false
	}
	return caBundleFault(c.Webhook.ClientConfig.CABundle) != nil
}

// caBundleFault returns kube-apiserver's error for a bundle without a valid certificate, or nil if the bundle
// is valid or empty.
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

// requireKnownReview reports whether the review versions must include a supported version. This is not required
// if the old definition has review versions, but no supported one.
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
