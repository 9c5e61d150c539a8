// Package certificates declares the resources of certificates.k8s.io.
package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// V1 returns the group version certificates.k8s.io/v1.
func V1() builtin.Group {
	v1beta1 := schema.GroupVersion{Group: certificatesv1.GroupName, Version: "v1beta1"}
	return builtin.Group{GroupVersion: certificatesv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*certificatesv1.CertificateSigningRequest]{
			Names:       builtin.Names{Plural: "certificatesigningrequests", Kind: "CertificateSigningRequest", ShortNames: []string{"csr"}},
			WritePolicy: builtin.WritePolicy{ValidateName: path.ValidatePathSegmentName},
			Strategy: builtin.Strategy[*certificatesv1.CertificateSigningRequest]{
				PrepareForCreate: prepareRequest, PrepareForUpdate: prepareRequestUpdate,
				Validate: validateRequest,
			},
			Status: &builtin.Status[*certificatesv1.CertificateSigningRequest]{
				MainResetFields: []string{"spec"}, ResetFields: []string{"status.conditions"}, PrepareForUpdate: prepareRequestStatus,
				Validate: validateRequestStatus,
			},
			FieldSelectors: builtin.FieldSelectors[*certificatesv1.CertificateSigningRequest]{
				Keys: []string{signerName}, ConvertLabel: fieldLabel(signerName),
				Values: requestFields,
			},
			Columns: requestColumns(), Subresources: []builtin.Subresource{approval()},
		}),
		builtin.Resource(builtin.Row[*certificatesv1.ClusterTrustBundle]{
			Names: builtin.Names{Plural: "clustertrustbundles", Kind: "ClusterTrustBundle"}, Gate: feature.ClusterTrustBundle,
			Versions:    builtin.Versions{Others: []builtin.Version{{GroupVersion: v1beta1, Deprecated: 37, Successor: "v1"}}},
			Storage:     builtin.Storage{Version: v1beta1},
			WritePolicy: builtin.WritePolicy{RequireResourceVersion: true, ValidateName: anyName},
			Strategy:    builtin.Strategy[*certificatesv1.ClusterTrustBundle]{Validate: validateBundle},
			FieldSelectors: builtin.FieldSelectors[*certificatesv1.ClusterTrustBundle]{
				Keys: []string{signerName}, ConvertLabel: fieldLabel(signerName),
				Values: bundleFields,
			},
			Columns: bundleColumns(),
		}),
		builtin.Resource(builtin.Row[*certificatesv1.PodCertificateRequest]{
			Names: builtin.Names{Plural: "podcertificaterequests", Kind: "PodCertificateRequest"}, Namespaced: true, Gate: feature.PodCertificateRequest,
			Versions:    builtin.Versions{Others: []builtin.Version{{Conversion: podRequestV1beta1(), Deprecated: 37, Successor: "v1"}}},
			Storage:     builtin.Storage{Version: v1beta1},
			WritePolicy: builtin.WritePolicy{RequireResourceVersion: true},
			Strategy:    builtin.Strategy[*certificatesv1.PodCertificateRequest]{Default: defaultPodRequest, Validate: validatePodRequest},
			Status: &builtin.Status[*certificatesv1.PodCertificateRequest]{
				PrepareForUpdate: preparePodRequestStatus, Validate: validatePodRequestStatus,
			},
			FieldSelectors: builtin.FieldSelectors[*certificatesv1.PodCertificateRequest]{
				Keys: []string{signerName, podName, nodeName}, ConvertLabel: fieldLabel(signerName, podName, nodeName),
				Values: podRequestFields,
			},
			Columns: podRequestColumns(),
		}),
	}}
}
