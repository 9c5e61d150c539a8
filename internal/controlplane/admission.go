package controlplane

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/plugin"
	"mainstay.dev/mainstay/internal/admission/podsecurity"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
)

// admissionPlugin is an admission plugin of kube-apiserver.
type admissionPlugin struct {
	name string
	// onDemand: the plugin is off unless --enable-admission-plugins names it.
	onDemand bool
	// open returns the plugin for a control plane, or nil where a feature gate has
	// it off.
	open func(*instance) admission.Plugin
}

// admissionPlugins are the plugins of kube-apiserver v1.37 in its order of
// execution: all that mutate, then, on the final object, all that validate. A new
// one has its place here, and nowhere else.
func admissionPlugins() []admissionPlugin {
	const onDemand, byDefault = true, false
	return []admissionPlugin{
		{"AlwaysAdmit", onDemand, func(*instance) admission.Plugin { return plugin.AlwaysAdmit{} }},
		{"NamespaceAutoProvision", onDemand, func(i *instance) admission.Plugin { return plugin.NamespaceAutoProvision{Namespaces: namespaces(i)} }},
		{"NamespaceLifecycle", byDefault, func(i *instance) admission.Plugin {
			return plugin.NamespaceLifecycle{Namespaces: namespaces(i)}
		}},
		{"NamespaceExists", onDemand, func(i *instance) admission.Plugin { return plugin.NamespaceExists{Namespaces: namespaces(i)} }},
		{"LimitPodHardAntiAffinityTopology", onDemand, func(*instance) admission.Plugin { return plugin.LimitPodHardAntiAffinityTopology{} }},
		{"LimitRanger", byDefault, func(i *instance) admission.Plugin {
			return plugin.LimitRanger{LimitRanges: stored[*corev1.LimitRange](i, corev1.SchemeGroupVersion, "limitranges")}
		}},
		{"ServiceAccount", byDefault, func(i *instance) admission.Plugin {
			return plugin.ServiceAccount{Accounts: stored[*corev1.ServiceAccount](i, corev1.SchemeGroupVersion, "serviceaccounts"), Provide: i.provideAccount}
		}},
		{"NodeRestriction", onDemand, nodeRestriction},
		{"TaintNodesByCondition", byDefault, func(*instance) admission.Plugin { return plugin.TaintNodesByCondition{} }},
		{"AlwaysPullImages", onDemand, func(*instance) admission.Plugin { return plugin.AlwaysPullImages{} }},
		{"ImagePolicyWebhook", onDemand, func(i *instance) admission.Plugin {
			return plugin.NewImagePolicyWebhook(i.options.AdmissionConfig.ImagePolicyWebhook)
		}},
		{"PodSecurity", byDefault, func(i *instance) admission.Plugin {
			return plugin.PodSecurity{
				Standards: podsecurity.New(), Config: i.options.AdmissionConfig.PodSecurity, Metrics: i.env.Metrics.PodSecurity,
				Namespaces: namespaces(i), Pods: loopback.For[*corev1.Pod](i.local, corev1.SchemeGroupVersion.WithResource("pods")),
			}
		}},
		{"PodNodeSelector", onDemand, func(i *instance) admission.Plugin {
			return plugin.PodNodeSelector{Namespaces: namespaces(i), Config: i.options.AdmissionConfig.PodNodeSelector}
		}},
		{"Priority", byDefault, func(i *instance) admission.Plugin {
			return plugin.Priority{Classes: stored[*schedulingv1.PriorityClass](i, schedulingv1.SchemeGroupVersion, "priorityclasses")}
		}},
		{"DefaultTolerationSeconds", byDefault, func(i *instance) admission.Plugin {
			return plugin.DefaultTolerationSeconds{NotReady: i.options.DefaultNotReadyTolerationSeconds, Unreachable: i.options.DefaultUnreachableTolerationSeconds}
		}},
		{"PodTolerationRestriction", onDemand, func(i *instance) admission.Plugin {
			return plugin.PodTolerationRestriction{Namespaces: namespaces(i), Config: i.options.AdmissionConfig.PodTolerationRestriction}
		}},
		{"EventRateLimit", onDemand, func(i *instance) admission.Plugin {
			return plugin.NewEventRateLimit(i.options.AdmissionConfig.EventRateLimit)
		}},
		{"ExtendedResourceToleration", onDemand, func(*instance) admission.Plugin { return plugin.ExtendedResourceToleration{} }},
		{"DefaultStorageClass", byDefault, func(i *instance) admission.Plugin {
			return plugin.DefaultStorageClass{Classes: stored[*storagev1.StorageClass](i, storagev1.SchemeGroupVersion, "storageclasses")}
		}},
		{"StorageObjectInUseProtection", byDefault, func(*instance) admission.Plugin { return plugin.StorageObjectInUseProtection{} }},
		{"PodGroupProtection", byDefault, podGroupProtection},
		{"OwnerReferencesPermissionEnforcement", onDemand, func(i *instance) admission.Plugin {
			return plugin.OwnerReferencesPermissionEnforcement{Authorizer: i.authorizer, ResourcesOf: i.resourcesOf}
		}},
		{"PersistentVolumeClaimResize", byDefault, func(i *instance) admission.Plugin {
			return plugin.PersistentVolumeClaimResize{Classes: stored[*storagev1.StorageClass](i, storagev1.SchemeGroupVersion, "storageclasses")}
		}},
		{"RuntimeClass", byDefault, func(i *instance) admission.Plugin {
			return plugin.RuntimeClass{Classes: stored[*nodev1.RuntimeClass](i, nodev1.SchemeGroupVersion, "runtimeclasses")}
		}},
		{"CertificateApproval", byDefault, func(i *instance) admission.Plugin { return plugin.CertificateApproval{Authorizer: i.authorizer} }},
		{"CertificateSigning", byDefault, func(i *instance) admission.Plugin { return plugin.CertificateSigning{Authorizer: i.authorizer} }},
		{"ClusterTrustBundleAttest", byDefault, func(i *instance) admission.Plugin { return plugin.ClusterTrustBundleAttest{Authorizer: i.authorizer} }},
		{"CertificateSubjectRestriction", byDefault, func(*instance) admission.Plugin { return plugin.CertificateSubjectRestriction{} }},
		{"DefaultIngressClass", byDefault, func(i *instance) admission.Plugin {
			return plugin.DefaultIngressClass{Classes: stored[*networkingv1.IngressClass](i, networkingv1.SchemeGroupVersion, "ingressclasses")}
		}},
		{"DenyServiceExternalIPs", onDemand, func(*instance) admission.Plugin { return plugin.DenyServiceExternalIPs{} }},
		{"PodTopologyLabels", byDefault, func(i *instance) admission.Plugin {
			return plugin.PodTopologyLabels{Nodes: nodes(i)}
		}},
		{"PodGroupWorkloadExists", byDefault, func(i *instance) admission.Plugin {
			return plugin.PodGroupWorkloadExists{Workloads: stored[*schedulingv1beta1.Workload](i, schedulingv1beta1.SchemeGroupVersion, "workloads")}
		}},
		{"NodeDeclaredFeatureValidator", byDefault, func(i *instance) admission.Plugin { return plugin.NodeDeclaredFeatureValidator{Nodes: nodes(i)} }},
		{"JobValidation", byDefault, func(*instance) admission.Plugin { return plugin.JobValidation{} }},
		{"PodResizeValidator", byDefault, func(i *instance) admission.Plugin { return plugin.PodResizeValidator{Nodes: nodes(i)} }},
		{"MutatingAdmissionPolicy", byDefault, func(i *instance) admission.Plugin {
			if !i.rows.Gates.Enabled(feature.MutatingAdmissionPolicy) {
				return nil
			}
			return i.policies.mutating
		}},
		{"MutatingAdmissionWebhook", byDefault, func(i *instance) admission.Plugin { return i.webhooks.mutating }},
		{"ValidatingAdmissionPolicy", byDefault, func(i *instance) admission.Plugin { return i.policies.validating }},
		{"ValidatingAdmissionWebhook", byDefault, func(i *instance) admission.Plugin { return i.webhooks.validating }},
		{resourceQuota, byDefault, func(i *instance) admission.Plugin { return plugin.ResourceQuota{Ledger: i.quotas} }},
		{"AlwaysDeny", onDemand, func(*instance) admission.Plugin { return plugin.AlwaysDeny{} }},
	}
}

// AdmissionPlugins are the names of the plugins that can be switched on, in
// order of execution.
func AdmissionPlugins() []string {
	var names []string
	for _, p := range admissionPlugins() {
		names = append(names, p.name)
	}
	return names
}

// checkAdmission reports unknown plugins, and plugins that are both enabled and disabled.
func (o Options) checkAdmission() error {
	known := make(map[string]bool)
	for _, name := range AdmissionPlugins() {
		known[name] = true
	}
	var errs []error
	for _, name := range o.EnableAdmissionPlugins {
		switch {
		case !known[name]:
			errs = append(errs, fmt.Errorf("--enable-admission-plugins: there is no admission plugin %q", name))
		case needsConfig(name) && !slices.Contains(o.AdmissionConfig.Configured(), name):
			errs = append(errs, fmt.Errorf("--enable-admission-plugins=%s needs its configuration, by --admission-control-config-file", name))
		case slices.Contains(o.DisableAdmissionPlugins, name):
			errs = append(errs, fmt.Errorf("--enable-admission-plugins and --disable-admission-plugins both name %s", name))
		}
	}
	for _, name := range o.DisableAdmissionPlugins {
		if !known[name] {
			errs = append(errs, fmt.Errorf("--disable-admission-plugins: there is no admission plugin %q", name))
		}
	}
	for _, name := range o.AdmissionConfig.Configured() {
		if !known[name] {
			errs = append(errs, fmt.Errorf("--admission-control-config-file: there is no admission plugin %q", name))
		}
	}
	return errors.Join(errs...)
}

// needsConfig reports whether a plugin requires a configuration.
func needsConfig(name string) bool { return name == "ImagePolicyWebhook" || name == "EventRateLimit" }

// has reports whether a plugin is on.
func (o Options) has(p admissionPlugin) bool {
	if gate := gateOf(p.name); gate != "" && !o.Gates().Enabled(gate) {
		return false
	}
	return !slices.Contains(o.DisableAdmissionPlugins, p.name) &&
		(!p.onDemand || slices.Contains(o.EnableAdmissionPlugins, p.name))
}

// admission is the chain of the plugins that take part.
func (i *instance) admission() admission.Chain {
	var chain admission.Chain
	for _, p := range admissionPlugins() {
		if !i.options.has(p) {
			continue
		}
		if opened := p.open(i); opened != nil {
			chain = append(chain, opened)
		}
	}
	return chain
}

// stored is how plugins look up objects. They are read far more often than
// written.
func stored[T codec.Object](i *instance, gv schema.GroupVersion, resource string) *loopback.Client[T] {
	return loopback.For[T](i.local, gv.WithResource(resource)).Keeping()
}

func namespaces(i *instance) *loopback.Client[*corev1.Namespace] {
	return stored[*corev1.Namespace](i, corev1.SchemeGroupVersion, "namespaces")
}

// nodes are written by their kubelets all the time.
func nodes(i *instance) *loopback.Client[*corev1.Node] {
	return loopback.For[*corev1.Node](i.local, corev1.SchemeGroupVersion.WithResource("nodes"))
}

func nodeRestriction(i *instance) admission.Plugin {
	core, gates := corev1.SchemeGroupVersion, i.rows.Gates
	return plugin.NodeRestriction{
		Nodes:           nodes(i),
		Pods:            loopback.For[*corev1.Pod](i.local, core.WithResource("pods")),
		Accounts:        loopback.For[*corev1.ServiceAccount](i.local, core.WithResource("serviceaccounts")),
		Claims:          loopback.For[*corev1.PersistentVolumeClaim](i.local, core.WithResource("persistentvolumeclaims")),
		Volumes:         loopback.For[*corev1.PersistentVolume](i.local, core.WithResource("persistentvolumes")),
		Drivers:         stored[*storagev1.CSIDriver](i, storagev1.SchemeGroupVersion, "csidrivers"),
		Authorizer:      i.authorizer,
		AnyAudience:     !gates.Enabled(feature.ServiceAccountNodeAudienceRestriction),
		AnyCertificate:  gates.Enabled(feature.AllowInsecureKubeletCertificateSigningRequests),
		PodCertificates: gates.Enabled(feature.PodCertificateRequest),
	}
}

// podGroupProtection reads pod groups, and composite groups if they are served.
func podGroupProtection(i *instance) admission.Plugin {
	p := plugin.PodGroupProtection{PodGroups: stored[*schedulingv1beta1.PodGroup](i, schedulingv1beta1.SchemeGroupVersion, "podgroups")}
	if i.rows.Gates.Enabled(feature.CompositePodGroup) {
		p.CompositePodGroups = stored[*schedulingv1alpha3.CompositePodGroup](i, schedulingv1alpha3.SchemeGroupVersion, "compositepodgroups")
	}
	return p
}

// resourcesOf returns the resources of a kind in a version, without subresources.
func (i *instance) resourcesOf(gvk schema.GroupVersionKind) []*rest.Resource {
	var resources []*rest.Resource
	group, _ := i.catalog.Group(gvk.Group)
	for _, version := range group.Versions {
		for _, r := range version.Resources {
			if version.GroupVersion == gvk.GroupVersion() && r.Subresource == "" && r.Version.GVK.Kind == gvk.Kind {
				resources = append(resources, r)
			}
		}
	}
	return resources
}
