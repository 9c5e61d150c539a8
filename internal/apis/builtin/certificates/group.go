// Package certificates declares the resources of certificates.k8s.io.
package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// V1 is certificates.k8s.io/v1.
func V1() builtin.Group {
	v1beta1 := schema.GroupVersion{Group: certificatesv1.GroupName, Version: "v1beta1"}
	return builtin.Group{GroupVersion: certificatesv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[certificatesv1.CertificateSigningRequest]{
			Name: "certificatesigningrequests", Kind: "CertificateSigningRequest", ShortNames: []string{"csr"},
			Status: true, Resets: []string{"spec"}, StatusResets: []string{"status.conditions"},
			ValidateName: path.ValidatePathSegmentName,
			Prepare:      prepareRequest, PrepareUpdate: prepareRequestUpdate, PrepareStatus: prepareRequestStatus,
			Validate: validateRequest, ValidateStatus: validateRequestStatus,
			SelectableFields: []string{signerName}, Fields: requestFields, FieldLabel: fieldLabel(signerName),
			Columns: requestColumns(), Subresources: []builtin.Subresource{approval()},
		}),
		builtin.Resource(builtin.Row[certificatesv1.ClusterTrustBundle]{
			Name: "clustertrustbundles", Kind: "ClusterTrustBundle",
			Gate: feature.ClusterTrustBundle, StorageVersion: v1beta1, RequireResourceVersion: true,
			ValidateName: anyName, Validate: validateBundle,
			SelectableFields: []string{signerName}, Fields: bundleFields, FieldLabel: fieldLabel(signerName),
			Columns: bundleColumns(),
			Also:    []builtin.Also{{GroupVersion: v1beta1, Deprecated: 37, Successor: "v1"}},
		}),
		builtin.Resource(builtin.Row[certificatesv1.PodCertificateRequest]{
			Name: "podcertificaterequests", Kind: "PodCertificateRequest", Namespaced: true,
			Gate: feature.PodCertificateRequest, StorageVersion: v1beta1, RequireResourceVersion: true,
			Status: true, Default: defaultPodRequest, PrepareStatus: preparePodRequestStatus,
			Validate: validatePodRequest, ValidateStatus: validatePodRequestStatus,
			SelectableFields: []string{signerName, podName, nodeName}, Fields: podRequestFields,
			FieldLabel: fieldLabel(signerName, podName, nodeName),
			Columns:    podRequestColumns(),
			Also:       []builtin.Also{{Version: podRequestV1beta1(), Deprecated: 37, Successor: "v1"}},
		}),
	}}
}
