package apiextensions

import (
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"mainstay.dev/mainstay/apis/builtin"
)

const webhookPort = 443

func defaultDefinition(crd *apiextensionsv1.CustomResourceDefinition) {
	names := &crd.Spec.Names
	if names.ListKind == "" && names.Kind != "" {
		names.ListKind = names.Kind + "List"
	}
	if names.Singular == "" {
		names.Singular = strings.ToLower(names.Kind)
	}
	builtin.Fill(&crd.Spec.Conversion, apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter})
	if w := crd.Spec.Conversion.Webhook; w != nil && w.ClientConfig != nil && w.ClientConfig.Service != nil {
		builtin.Fill(&w.ClientConfig.Service.Port, webhookPort)
	}
	if len(crd.Status.StoredVersions) == 0 {
		noteStoredVersion(crd)
	}
}
