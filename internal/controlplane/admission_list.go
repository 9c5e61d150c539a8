package controlplane

import "mainstay.dev/mainstay/internal/feature"

// AdmissionPlugin describes an admission plugin of kube-apiserver to users.
type AdmissionPlugin struct {
	Name string `json:"name"`
	// Does is a short description.
	Does string `json:"does"`
	// Default reports whether the plugin is on by default, On whether it is on.
	Default bool `json:"default"`
	On      bool `json:"on"`
	// Gate is the feature gate that the plugin requires; "" without one.
	Gate feature.Gate `json:"gate,omitempty"`
}

// ListAdmission returns all plugins, in order of execution.
func (o Options) ListAdmission() []AdmissionPlugin {
	phrases := admissionPhrases()
	var listed []AdmissionPlugin
	for _, p := range admissionPlugins() {
		listed = append(listed, AdmissionPlugin{
			Name: p.name, Does: phrases[p.name], Default: !p.onDemand, On: o.has(p) && (gateOf(p.name) == "" || o.Gates().Enabled(gateOf(p.name))), Gate: gateOf(p.name),
		})
	}
	return listed
}

// gateOf returns the feature gate of a plugin, or "".
func gateOf(plugin string) feature.Gate {
	switch plugin {
	case "PodGroupProtection", "PodGroupWorkloadExists":
		return feature.GenericWorkload
	case "MutatingAdmissionPolicy":
		return feature.MutatingAdmissionPolicy
	case "PodTopologyLabels":
		return feature.PodTopologyLabelsAdmission
	}
	return ""
}

// admissionPhrases returns the descriptions of plugins.
func admissionPhrases() map[string]string {
	return map[string]string{
		"AlwaysAdmit":                          "lets everything pass",
		"NamespaceAutoProvision":               "creates the namespace that something is created in",
		"NamespaceLifecycle":                   "rejects objects in namespaces that are missing or being deleted, and deletion of the system's namespaces",
		"NamespaceExists":                      "refuses requests into namespaces that are missing",
		"LimitPodHardAntiAffinityTopology":     "refuses pods that must be apart by anything but the host name",
		"LimitRanger":                          "applies the default requests and limits of LimitRanges, and rejects pods and claims outside their limits",
		"ServiceAccount":                       "adds a service account, its token and its image pull secrets to pods",
		"NodeRestriction":                      "limits kubelets to their own nodes and pods",
		"TaintNodesByCondition":                "taints new nodes as not ready",
		"AlwaysPullImages":                     "has pods pull their images each time",
		"ImagePolicyWebhook":                   "asks a webhook whether the images of pods may run",
		"PodSecurity":                          "enforces the Pod Security Standards of the namespace: rejects, audits, warns",
		"PodNodeSelector":                      "adds the node selector of the namespace to pods",
		"Priority":                             "sets the priority of pods from their class, and allows one default class",
		"DefaultTolerationSeconds":             "lets pods stay for a time on nodes that are not ready or unreachable",
		"PodTolerationRestriction":             "adds the tolerations of the namespace to pods, and rejects others",
		"EventRateLimit":                       "limits how many events are written",
		"ExtendedResourceToleration":           "adds tolerations for the extended resources that pods ask for",
		"DefaultStorageClass":                  "sets the default storage class of claims",
		"StorageObjectInUseProtection":         "prevents deletion of volumes, claims and attribute classes that are in use",
		"PodGroupProtection":                   "prevents deletion of pod groups that contain pods, and rejects new pods in groups that are being deleted",
		"OwnerReferencesPermissionEnforcement": "requires permission to delete the object, or its owner's finalizers, for changes of owner references",
		"PersistentVolumeClaimResize":          "lets claims grow only where their class allows it",
		"RuntimeClass":                         "adds the overhead and scheduling rules of the runtime class to pods",
		"CertificateApproval":                  "requires permission of the signer to approve certificates",
		"CertificateSigning":                   "requires permission of the signer to sign certificates",
		"ClusterTrustBundleAttest":             "requires permission of the signer to write trust bundles",
		"CertificateSubjectRestriction":        "refuses requests for client certificates of system:masters",
		"DefaultIngressClass":                  "sets the default class of ingresses",
		"DenyServiceExternalIPs":               "refuses new external IPs of services",
		"PodTopologyLabels":                    "copies the zone and region labels of the node to pods",
		"PodGroupWorkloadExists":               "rejects pod groups with a missing workload or template",
		"NodeDeclaredFeatureValidator":         "refuses changes of pods that their node does not support",
		"JobValidation":                        "no effect yet, as in kube-apiserver v1.37",
		"PodResizeValidator":                   "refuses pods that grow beyond their node",
		"MutatingAdmissionPolicy":              "changes objects by MutatingAdmissionPolicies",
		"MutatingAdmissionWebhook":             "has webhooks change objects",
		"ValidatingAdmissionPolicy":            "checks objects by ValidatingAdmissionPolicies",
		"ValidatingAdmissionWebhook":           "has webhooks check objects",
		"ResourceQuota":                        "counts objects against ResourceQuotas, and rejects those above a limit",
		"AlwaysDeny":                           "refuses everything",
	}
}
