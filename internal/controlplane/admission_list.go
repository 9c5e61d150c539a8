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
		"NamespaceLifecycle":                   "refuses what is created in namespaces that are missing or being deleted, and deletion of those the system needs",
		"NamespaceExists":                      "refuses requests into namespaces that are missing",
		"LimitPodHardAntiAffinityTopology":     "refuses pods that must be apart by anything but the host name",
		"LimitRanger":                          "gives containers the requests and limits of LimitRanges, and refuses pods and claims outside their bounds",
		"ServiceAccount":                       "gives pods a service account, its tokens and image pull secrets",
		"NodeRestriction":                      "limits kubelets to their own nodes and pods",
		"TaintNodesByCondition":                "taints new nodes as not ready",
		"AlwaysPullImages":                     "has pods pull their images each time",
		"ImagePolicyWebhook":                   "asks a webhook whether the images of pods may run",
		"PodSecurity":                          "holds pods to the Pod Security Standards of their namespace: refuses, audits, warns",
		"PodNodeSelector":                      "adds what a namespace asks of the nodes of its pods",
		"Priority":                             "gives pods the priority of their class, and keeps one class the default",
		"DefaultTolerationSeconds":             "lets pods stay for a time on nodes that are not ready or unreachable",
		"PodTolerationRestriction":             "gives pods the tolerations of their namespace, and refuses others",
		"EventRateLimit":                       "limits how many events are written",
		"ExtendedResourceToleration":           "adds tolerations for the extended resources that pods ask for",
		"DefaultStorageClass":                  "gives claims the default storage class",
		"StorageObjectInUseProtection":         "keeps volumes, claims and attribute classes while they are in use",
		"PodGroupProtection":                   "keeps groups of pods while something is in them, and lets nothing into those being deleted",
		"OwnerReferencesPermissionEnforcement": "lets only those change owners who may delete the object or the owner's finalizers",
		"PersistentVolumeClaimResize":          "lets claims grow only where their class allows it",
		"RuntimeClass":                         "gives pods the overhead and scheduling of their runtime class",
		"CertificateApproval":                  "lets only those approve certificates who may for the signer",
		"CertificateSigning":                   "lets only those issue certificates who may for the signer",
		"ClusterTrustBundleAttest":             "lets only those write trust bundles who may for the signer",
		"CertificateSubjectRestriction":        "refuses requests for client certificates of system:masters",
		"DefaultIngressClass":                  "gives ingresses the default class",
		"DenyServiceExternalIPs":               "refuses new external IPs of services",
		"PodTopologyLabels":                    "gives pods the zone and region of their node as labels",
		"PodGroupWorkloadExists":               "refuses groups of pods whose workload or template is missing",
		"NodeDeclaredFeatureValidator":         "refuses changes of pods that their node does not support",
		"JobValidation":                        "nothing yet, as in kube-apiserver v1.37",
		"PodResizeValidator":                   "refuses pods that grow beyond their node",
		"MutatingAdmissionPolicy":              "changes objects by MutatingAdmissionPolicies",
		"MutatingAdmissionWebhook":             "has webhooks change objects",
		"ValidatingAdmissionPolicy":            "checks objects by ValidatingAdmissionPolicies",
		"ValidatingAdmissionWebhook":           "has webhooks check objects",
		"ResourceQuota":                        "charges ResourceQuotas and refuses what exceeds them",
		"AlwaysDeny":                           "refuses everything",
	}
}
