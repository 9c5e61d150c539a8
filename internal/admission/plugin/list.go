package plugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/config"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/registry/quota"
	"mainstay.dev/mainstay/internal/rest"
)

// All returns the plugins of kube-apiserver v1.37 in kube-apiserver's order of execution. Mutating plugins run
// first; validating plugins run on the final object. To add a plugin, write a file with its Registration and
// add a line to this list.
func All() []Registration {
	return []Registration{
		alwaysAdmitPlugin(),
		namespaceAutoProvisionPlugin(),
		namespaceLifecyclePlugin(),
		namespaceExistsPlugin(),
		limitPodHardAntiAffinityTopologyPlugin(),
		limitRangerPlugin(),
		serviceAccountPlugin(),
		nodeRestrictionPlugin(),
		taintNodesByConditionPlugin(),
		alwaysPullImagesPlugin(),
		imagePolicyWebhookPlugin(),
		podSecurityPlugin(),
		podNodeSelectorPlugin(),
		priorityPlugin(),
		defaultTolerationSecondsPlugin(),
		podTolerationRestrictionPlugin(),
		eventRateLimitPlugin(),
		extendedResourceTolerationPlugin(),
		defaultStorageClassPlugin(),
		storageObjectInUseProtectionPlugin(),
		podGroupProtectionPlugin(),
		ownerReferencesPermissionEnforcementPlugin(),
		persistentVolumeClaimResizePlugin(),
		runtimeClassPlugin(),
		certificateApprovalPlugin(),
		certificateSigningPlugin(),
		clusterTrustBundleAttestPlugin(),
		certificateSubjectRestrictionPlugin(),
		defaultIngressClassPlugin(),
		denyServiceExternalIPsPlugin(),
		podTopologyLabelsPlugin(),
		podGroupWorkloadExistsPlugin(),
		nodeDeclaredFeatureValidatorPlugin(),
		jobValidationPlugin(),
		podResizeValidatorPlugin(),
		mutatingAdmissionPolicyPlugin(),
		mutatingAdmissionWebhookPlugin(),
		validatingAdmissionPolicyPlugin(),
		validatingAdmissionWebhookPlugin(),
		resourceQuotaPlugin(),
		alwaysDenyPlugin(),
	}
}

// Registration describes a plugin and contains its constructor.
type Registration struct {
	// Name is the plugin's name in kube-apiserver, as returned by Plugin.Name.
	Name string
	// Description completes the sentence "The plugin ...".
	Description string
	// OnByDefault enables the plugin unless --disable-admission-plugins lists it. A plugin that is not on by
	// default must be listed in --enable-admission-plugins.
	OnByDefault bool
	// Gate is the feature gate that the plugin requires; "" if it requires none.
	Gate feature.Gate
	// RequiresConfig reports that the plugin cannot be enabled without a configuration in
	// --admission-control-config-file.
	RequiresConfig bool
	// New creates the plugin for one control plane. It performs no I/O except reading the files that
	// the configuration names.
	New func(Dependencies) admission.Plugin
}

// Dependencies are the parts of a control plane that plugins use. All fields are required unless noted. The
// components need not be usable before the first request is admitted.
type Dependencies struct {
	// Client reads and writes objects with the server's own permissions.
	Client *loopback.Access
	// Config is the configuration of the plugins, with defaults.
	Config *config.Config
	// Gates are the enabled feature gates.
	Gates feature.Gates
	// Authorizer decides the permission checks of plugins.
	Authorizer authorizer.Authorizer
	// ResourcesOf returns the served resources of a kind, without subresources.
	ResourcesOf func(schema.GroupVersionKind) []*rest.Resource
	// Quotas is the ledger of quota charges.
	Quotas *quota.Ledger
	// ProvideAccount implements ServiceAccount.Provide.
	ProvideAccount func(ctx context.Context, namespace string)
	// NotReadyTolerationSeconds and UnreachableTolerationSeconds are the durations of the default tolerations
	// of pods, in seconds; nil selects 300.
	NotReadyTolerationSeconds, UnreachableTolerationSeconds *int64
	// PodSecurityMetrics counts the evaluations of PodSecurity; nil disables the metrics.
	PodSecurityMetrics *PodSecurityMetrics
	// The policy and webhook plugins. They are created outside this package, because reflectors update them
	// with API objects.
	MutatingPolicies, ValidatingPolicies, MutatingWebhooks, ValidatingWebhooks admission.Plugin
}

// client returns a client for objects that change often, such as nodes.
func client[T codec.Object](d Dependencies, gv schema.GroupVersion, resource string) *loopback.Client[T] {
	return loopback.For[T](d.Client, gv.WithResource(resource))
}

// cached returns a client that caches decoded objects. Use it for objects that are read much more often than
// they are written.
func cached[T codec.Object](d Dependencies, gv schema.GroupVersion, resource string) *loopback.Client[T] {
	return client[T](d, gv, resource).Cached()
}

func (d Dependencies) namespaces() *loopback.Client[*corev1.Namespace] {
	return cached[*corev1.Namespace](d, corev1.SchemeGroupVersion, "namespaces")
}

// nodes returns a client that does not cache decoded objects, because kubelets update nodes frequently.
func (d Dependencies) nodes() *loopback.Client[*corev1.Node] {
	return client[*corev1.Node](d, corev1.SchemeGroupVersion, "nodes")
}
