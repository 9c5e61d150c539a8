// Package core declares the resources of the core group, under /api/v1.
package core

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
)

// V1 is v1 of the core group. Events are served in events.k8s.io/v1 as well.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: corev1.SchemeGroupVersion, Resources: []builtin.Entry{
		bindings(),
		componentStatuses(),
		builtin.Resource(builtin.Row[corev1.ConfigMap]{
			Name: "configmaps", Kind: "ConfigMap", ShortNames: []string{"cm"}, Namespaced: true,
			Validate: validateConfigMap, Columns: configMapColumns(),
		}),
		builtin.Resource(builtin.Row[corev1.Endpoints]{
			Name: "endpoints", Kind: "Endpoints", ShortNames: []string{"ep"}, Namespaced: true,
			StoragePath: "services/endpoints", CreateOnUpdate: true, Default: defaultEndpoints,
			Validate: validateEndpoints, Warnings: endpointsWarnings,
			Warning: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
			Columns: endpointsColumns(),
		}),
		builtin.Resource(builtin.Row[corev1.LimitRange]{
			Name: "limitranges", Kind: "LimitRange", ShortNames: []string{"limits"}, Namespaced: true,
			CreateOnUpdate: true, Default: defaultLimitRange, Prepare: prepareLimitRange, Validate: validateLimitRange,
		}),
		builtin.Resource(persistentVolumes()),
		builtin.Resource(persistentVolumeClaims()),
		builtin.Resource(builtin.Row[corev1.PodTemplate]{
			Name: "podtemplates", Kind: "PodTemplate", Namespaced: true, Generation: true, ReturnDeleted: true,
			Default: defaultPodTemplate, Prepare: podspec.Prepare(podTemplatePods), PrepareUpdate: podspec.PrepareUpdate(podTemplatePods),
			Validate: validatePodTemplate, Warnings: podTemplateWarnings, Columns: podTemplateColumns(),
		}),
		builtin.Resource(builtin.Row[corev1.ReplicationController]{
			Name: "replicationcontrollers", Kind: "ReplicationController", ShortNames: []string{"rc"},
			Categories: []string{"all"}, Namespaced: true, StoragePath: "controllers",
			Status: true, Generation: true, OrphanByDefault: true,
			Default: defaultReplicationController, Prepare: podspec.Prepare(replicationControllerPods), PrepareUpdate: podspec.PrepareUpdate(replicationControllerPods),
			ValidateName: validateReplicationControllerName,
			Validate:     validateReplicationController, ValidateStatus: validateReplicationControllerStatus,
			Warnings:         replicationControllerWarnings,
			Columns:          replicationControllerColumns(),
			SelectableFields: []string{"status.replicas"}, Fields: replicationControllerFields,
			Subresources: []builtin.Subresource{builtin.ScaleSubresource(replicationControllerScale())},
		}),
		builtin.Resource(builtin.Row[corev1.ResourceQuota]{
			Name: "resourcequotas", Kind: "ResourceQuota", ShortNames: []string{"quota"}, Namespaced: true,
			Status: true, ReturnDeleted: true, Default: defaultResourceQuota, Columns: resourceQuotaColumns(),
			Validate: validateResourceQuota, ValidateStatus: validateResourceQuotaStatus, Warnings: resourceQuotaWarnings,
		}),
		builtin.Resource(secrets()),
		builtin.Resource(builtin.Row[corev1.ServiceAccount]{
			Name: "serviceaccounts", Kind: "ServiceAccount", ShortNames: []string{"sa"}, Namespaced: true,
			ReturnDeleted: true, Columns: serviceAccountColumns(),
			Prepare: prepareServiceAccount, PrepareUpdate: prepareServiceAccountUpdate, Warnings: serviceAccountWarnings,
			Subresources: []builtin.Subresource{serviceAccountToken()},
		}),
		builtin.Resource(events()),
		builtin.Resource(namespaces()),
		builtin.Resource(nodes()),
		builtin.Resource(pods()),
		builtin.Resource(services()),
		builtin.Unserved(nodePortLocks()),
		builtin.Unserved(portBitmap()),
	}}
}
