// Package core declares the resources of the core group, under /api/v1.
package core

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
)

// V1 returns the group version v1. Events are also served in events.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: corev1.SchemeGroupVersion, Resources: []builtin.Entry{
		bindings(),
		componentStatuses(),
		builtin.Resource(builtin.Row[*corev1.ConfigMap]{
			Names: builtin.Names{Plural: "configmaps", Kind: "ConfigMap", ShortNames: []string{"cm"}}, Namespaced: true,
			Strategy: builtin.Strategy[*corev1.ConfigMap]{Validate: validateConfigMap},
			Columns:  configMapColumns(),
		}),
		builtin.Resource(builtin.Row[*corev1.Endpoints]{
			Names: builtin.Names{Plural: "endpoints", Kind: "Endpoints", ShortNames: []string{"ep"}}, Namespaced: true,
			Versions:    builtin.Versions{Warning: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"},
			Storage:     builtin.Storage{Path: "services/endpoints"},
			WritePolicy: builtin.WritePolicy{AllowCreateOnUpdate: true},
			Strategy:    builtin.Strategy[*corev1.Endpoints]{Default: defaultEndpoints, Validate: validateEndpoints, Warnings: endpointsWarnings},
			Columns:     endpointsColumns(),
		}),
		builtin.Resource(builtin.Row[*corev1.LimitRange]{
			Names: builtin.Names{Plural: "limitranges", Kind: "LimitRange", ShortNames: []string{"limits"}}, Namespaced: true,
			WritePolicy: builtin.WritePolicy{AllowCreateOnUpdate: true},
			Strategy: builtin.Strategy[*corev1.LimitRange]{
				Default:          defaultLimitRange,
				PrepareForCreate: prepareLimitRange,
				Validate:         validateLimitRange,
			},
		}),
		builtin.Resource(persistentVolumes()),
		builtin.Resource(persistentVolumeClaims()),
		builtin.Resource(builtin.Row[*corev1.PodTemplate]{
			Names: builtin.Names{Plural: "podtemplates", Kind: "PodTemplate"}, Namespaced: true,
			WritePolicy: builtin.WritePolicy{Generation: true, ReturnDeletedObject: true},
			Strategy: builtin.Strategy[*corev1.PodTemplate]{
				Default:          defaultPodTemplate,
				PrepareForCreate: podspec.PrepareForCreate(podTemplatePods), PrepareForUpdate: podspec.PrepareForUpdate(podTemplatePods),
				Validate: validatePodTemplate, Warnings: podTemplateWarnings,
			},
			Columns: podTemplateColumns(),
		}),
		builtin.Resource(builtin.Row[*corev1.ReplicationController]{
			Names: builtin.Names{
				Plural: "replicationcontrollers", Kind: "ReplicationController", ShortNames: []string{"rc"}, Categories: []string{"all"},
			}, Namespaced: true,
			Storage:     builtin.Storage{Path: "controllers"},
			WritePolicy: builtin.WritePolicy{Generation: true, ValidateName: validateReplicationControllerName},
			Strategy: builtin.Strategy[*corev1.ReplicationController]{
				Default:          defaultReplicationController,
				PrepareForCreate: podspec.PrepareForCreate(replicationControllerPods),
				PrepareForUpdate: podspec.PrepareForUpdate(replicationControllerPods),
				Validate:         validateReplicationController, Warnings: replicationControllerWarnings,
			},
			Status:   &builtin.Status[*corev1.ReplicationController]{Validate: validateReplicationControllerStatus},
			Deletion: builtin.Deletion[*corev1.ReplicationController]{OrphanByDefault: true},
			FieldSelectors: builtin.FieldSelectors[*corev1.ReplicationController]{
				Keys:   []string{"status.replicas"},
				Values: replicationControllerFields,
			},
			Columns: replicationControllerColumns(), Subresources: []builtin.Subresource{builtin.ScaleSubresource(replicationControllerScale())},
		}),
		builtin.Resource(builtin.Row[*corev1.ResourceQuota]{
			Names: builtin.Names{Plural: "resourcequotas", Kind: "ResourceQuota", ShortNames: []string{"quota"}}, Namespaced: true,
			WritePolicy: builtin.WritePolicy{ReturnDeletedObject: true},
			Strategy: builtin.Strategy[*corev1.ResourceQuota]{
				Default:  defaultResourceQuota,
				Validate: validateResourceQuota, Warnings: resourceQuotaWarnings,
			},
			Status:  &builtin.Status[*corev1.ResourceQuota]{Validate: validateResourceQuotaStatus},
			Columns: resourceQuotaColumns(),
		}),
		builtin.Resource(secrets()),
		builtin.Resource(builtin.Row[*corev1.ServiceAccount]{
			Names: builtin.Names{Plural: "serviceaccounts", Kind: "ServiceAccount", ShortNames: []string{"sa"}}, Namespaced: true,
			WritePolicy: builtin.WritePolicy{ReturnDeletedObject: true},
			Strategy: builtin.Strategy[*corev1.ServiceAccount]{
				PrepareForCreate: prepareServiceAccount, PrepareForUpdate: prepareServiceAccountUpdate, Warnings: serviceAccountWarnings,
			},
			Columns: serviceAccountColumns(), Subresources: []builtin.Subresource{serviceAccountToken()},
		}),
		builtin.Resource(events()),
		builtin.Resource(namespaces()),
		builtin.Resource(nodes()),
		builtin.Resource(pods()),
		builtin.Resource(services()),
		builtin.InternalResource(nodePortLocks()),
		builtin.InternalResource(portBitmap()),
	}}
}
