package bootstrap

import rbacv1 "k8s.io/api/rbac/v1"

// controllerRole is the role of a controller: the cluster role system:controller:NAME, bound to the
// service account NAME in kube-system.
type controllerRole struct {
	name  string
	rules []rbacv1.PolicyRule
}

func controllerRoles() []controllerRole {
	return []controllerRole{
		{"attachdetach-controller", []rbacv1.PolicyRule{
			allow("list watch", "core", "persistentvolumeclaims persistentvolumes"),
			allow("get list watch", "core", "nodes"),
			allow("patch update", "core", "nodes/status"),
			allow("list watch", "core", "pods"),
			allow("create patch update", "core events.k8s.io", "events"),
			allow("create delete get list watch", "storage.k8s.io", "volumeattachments"),
			allow("get list watch", "storage.k8s.io", "csidrivers"),
			allow("get list watch", "storage.k8s.io", "csinodes"),
		}},
		{"certificate-controller", []rbacv1.PolicyRule{
			allow("delete get list watch", "certificates.k8s.io", "certificatesigningrequests"),
			allow("update", "certificates.k8s.io", "certificatesigningrequests/approval certificatesigningrequests/status"),
			allow("approve", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-client-kubelet"),
			allow("sign", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving", "kubernetes.io/legacy-unknown"),
			allow("create", "authorization.k8s.io", "subjectaccessreviews"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"clusterrole-aggregation-controller", []rbacv1.PolicyRule{
			allow("escalate get list patch update watch", "rbac.authorization.k8s.io", "clusterroles"),
		}},
		{"cronjob-controller", []rbacv1.PolicyRule{
			allow("get list update watch", "batch", "cronjobs"),
			allow("create delete get list patch update watch", "batch", "jobs"),
			allow("update", "batch", "cronjobs/status"),
			allow("update", "batch", "cronjobs/finalizers"),
			allow("delete list watch", "core", "pods"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"daemon-set-controller", []rbacv1.PolicyRule{
			allow("get list watch", "apps extensions", "daemonsets"),
			allow("update", "apps extensions", "daemonsets/status"),
			allow("update", "apps extensions", "daemonsets/finalizers"),
			allow("list watch", "core", "nodes"),
			allow("create delete list patch watch", "core", "pods"),
			allow("create", "core", "pods/binding"),
			allow("create delete get list patch update watch", "apps", "controllerrevisions"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"deployment-controller", []rbacv1.PolicyRule{
			allow("get list update watch", "apps extensions", "deployments"),
			allow("update", "apps extensions", "deployments/status"),
			allow("update", "apps extensions", "deployments/finalizers"),
			allow("create delete get list patch update watch", "apps extensions", "replicasets"),
			allow("get list update watch", "core", "pods"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"device-taint-eviction-controller", []rbacv1.PolicyRule{
			allow("delete get list watch", "core", "pods"),
			allow("patch update", "core", "pods/status"),
			allow("get list watch", "resource.k8s.io", "resourceclaims"),
			allow("get list watch", "resource.k8s.io", "resourceslices"),
			allow("get list watch", "resource.k8s.io", "deviceclasses"),
			allow("create patch update", "core events.k8s.io", "events"),
			allow("patch update", "resource.k8s.io", "devicetaintrules/status"),
			allow("get list watch", "resource.k8s.io", "devicetaintrules"),
		}},
		{"disruption-controller", []rbacv1.PolicyRule{
			allow("get list watch", "apps extensions", "deployments"),
			allow("get list watch", "apps extensions", "replicasets"),
			allow("get list watch", "core", "replicationcontrollers"),
			allow("get list watch", "policy", "poddisruptionbudgets"),
			allow("get list watch", "apps", "statefulsets"),
			allow("update", "policy", "poddisruptionbudgets/status"),
			allow("patch update", "core", "pods/status"),
			allow("get", "*", "*/scale"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"endpoint-controller", []rbacv1.PolicyRule{
			allow("get list watch", "core", "pods services"),
			allow("create delete get list update watch", "core", "endpoints"),
			allow("create", "core", "endpoints/restricted"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"endpointslice-controller", []rbacv1.PolicyRule{
			allow("get list watch", "core", "nodes pods services"),
			allow("update", "core", "services/finalizers"),
			allow("create delete get list update watch", "discovery.k8s.io", "endpointslices"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"endpointslicemirroring-controller", []rbacv1.PolicyRule{
			allow("get list watch", "core", "endpoints services"),
			allow("update", "core", "services/finalizers"),
			allow("update", "core", "endpoints/finalizers"),
			allow("create delete get list update watch", "discovery.k8s.io", "endpointslices"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"ephemeral-volume-controller", []rbacv1.PolicyRule{
			allow("get list watch", "core", "pods"),
			allow("update", "core", "pods/finalizers"),
			allow("create get list watch", "core", "persistentvolumeclaims"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"expand-controller", []rbacv1.PolicyRule{
			allow("get list patch update watch", "core", "persistentvolumes"),
			allow("patch update", "core", "persistentvolumeclaims/status"),
			allow("get list watch", "core", "persistentvolumeclaims"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"generic-garbage-collector", []rbacv1.PolicyRule{
			allow("delete get list patch update watch", "*", "*"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"horizontal-pod-autoscaler", []rbacv1.PolicyRule{
			allow("get list watch", "autoscaling", "horizontalpodautoscalers"),
			allow("update", "autoscaling", "horizontalpodautoscalers/status"),
			allow("get update", "*", "*/scale"),
			allow("list watch", "core", "pods"),
			allow("list watch", "metrics.k8s.io", "pods"),
			allow("get list watch", "custom.metrics.k8s.io", "*"),
			allow("get list watch", "external.metrics.k8s.io", "*"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"job-controller", []rbacv1.PolicyRule{
			allow("get list patch update watch", "batch", "jobs"),
			allow("update", "batch", "jobs/status"),
			allow("update", "batch", "jobs/finalizers"),
			allow("create delete list patch watch", "core", "pods"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"kube-apiserver-serving-clustertrustbundle-publisher", []rbacv1.PolicyRule{
			allow("attest", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-serving"),
			allow("create delete list update watch", "certificates.k8s.io", "clustertrustbundles"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"legacy-service-account-token-cleaner", []rbacv1.PolicyRule{
			allow("get", "core", "configmaps", "kube-apiserver-legacy-service-account-token-tracking"),
			allow("delete patch", "core", "secrets"),
		}},
		{"namespace-controller", []rbacv1.PolicyRule{
			allow("delete get list watch", "core", "namespaces"),
			allow("update", "core", "namespaces/finalize namespaces/status"),
			allow("delete deletecollection get list watch", "*", "*"),
		}},
		{"node-controller", []rbacv1.PolicyRule{
			allow("delete get list patch update watch", "core", "nodes"),
			allow("patch update", "core", "nodes/status"),
			allow("patch update", "core", "pods/status"),
			allow("delete get list watch", "core", "pods"),
			allow("get list watch", "coordination.k8s.io", "leases"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"persistent-volume-binder", []rbacv1.PolicyRule{
			allow("create delete get list update watch", "core", "persistentvolumes"),
			allow("update", "core", "persistentvolumes/status"),
			allow("get list update watch", "core", "persistentvolumeclaims"),
			allow("update", "core", "persistentvolumeclaims/status"),
			allow("create delete get list watch", "core", "pods"),
			allow("get list watch", "storage.k8s.io", "storageclasses"),
			allow("list watch", "core", "nodes"),
			allow("create patch update", "core events.k8s.io", "events"),
			allow("watch", "core", "events"),
		}},
		{"pod-garbage-collector", []rbacv1.PolicyRule{
			allow("delete list watch", "core", "pods"),
			allow("get list watch", "core", "nodes"),
			allow("patch", "core", "pods/status"),
		}},
		{"podcertificaterequestcleaner", []rbacv1.PolicyRule{
			allow("delete get list watch", "certificates.k8s.io", "podcertificaterequests"),
		}},
		{"pv-protection-controller", []rbacv1.PolicyRule{
			allow("get list update watch", "core", "persistentvolumes"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"pvc-protection-controller", []rbacv1.PolicyRule{
			allow("get list update watch", "core", "persistentvolumeclaims"),
			allow("update", "core", "persistentvolumeclaims/status"),
			allow("get list watch", "core", "pods"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"replicaset-controller", []rbacv1.PolicyRule{
			allow("get list update watch", "apps extensions", "replicasets"),
			allow("update", "apps extensions", "replicasets/status"),
			allow("update", "apps extensions", "replicasets/finalizers"),
			allow("create delete list patch watch", "core", "pods"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"replication-controller", []rbacv1.PolicyRule{
			allow("get list update watch", "core", "replicationcontrollers"),
			allow("update", "core", "replicationcontrollers/status"),
			allow("update", "core", "replicationcontrollers/finalizers"),
			allow("create delete list patch watch", "core", "pods"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"resource-claim-controller", []rbacv1.PolicyRule{
			allow("get list watch", "core", "pods"),
			allow("update", "core", "pods/finalizers"),
			allow("create delete get list watch", "resource.k8s.io", "resourceclaims"),
			allow("patch update", "resource.k8s.io", "resourceclaims resourceclaims/status"),
			allow("patch update", "core", "pods/status"),
			allow("create patch update", "core events.k8s.io", "events"),
			allow("patch update", "resource.k8s.io", "resourceclaims/binding"),
		}},
		{"resourcequota-controller", []rbacv1.PolicyRule{
			allow("list watch", "*", "*"),
			allow("update", "core", "resourcequotas/status"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"root-ca-cert-publisher", []rbacv1.PolicyRule{
			allow("create update", "core", "configmaps"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"route-controller", []rbacv1.PolicyRule{
			allow("list watch", "core", "nodes"),
			allow("patch", "core", "nodes/status"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"selinux-warning-controller", []rbacv1.PolicyRule{
			allow("create patch update", "core events.k8s.io", "events"),
			allow("get list watch", "core", "persistentvolumes"),
			allow("get list watch", "core", "persistentvolumeclaims"),
			allow("get list watch", "core", "pods"),
			allow("get list watch", "storage.k8s.io", "csidrivers"),
		}},
		{"service-account-controller", []rbacv1.PolicyRule{
			allow("create", "core", "serviceaccounts"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"service-cidrs-controller", []rbacv1.PolicyRule{
			allow("get list patch update watch", "networking.k8s.io", "servicecidrs"),
			allow("patch update", "networking.k8s.io", "servicecidrs/finalizers"),
			allow("patch update", "networking.k8s.io", "servicecidrs/status"),
			allow("get list watch", "networking.k8s.io", "ipaddresses"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"service-controller", []rbacv1.PolicyRule{
			allow("get list watch", "core", "services"),
			allow("patch update", "core", "services/status"),
			allow("list watch", "core", "nodes"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"statefulset-controller", []rbacv1.PolicyRule{
			allow("list watch", "core", "pods"),
			allow("get list watch", "apps", "statefulsets"),
			allow("update", "apps", "statefulsets/status"),
			allow("update", "apps", "statefulsets/finalizers"),
			allow("create delete get patch update", "core", "pods"),
			allow("create delete get list patch update watch", "apps", "controllerrevisions"),
			allow("create get list watch", "core", "persistentvolumeclaims"),
			allow("delete update", "core", "persistentvolumeclaims"),
			allow("update", "core", "pods/finalizers"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"storage-version-migrator-controller", []rbacv1.PolicyRule{
			allow("list patch", "*", "*"),
			allow("get", "apiextensions.k8s.io", "customresourcedefinitions"),
			allow("patch", "apiextensions.k8s.io", "customresourcedefinitions/status"),
			allow("update", "storagemigration.k8s.io", "storageversionmigrations/status"),
		}},
		{"ttl-after-finished-controller", []rbacv1.PolicyRule{
			allow("delete get list watch", "batch", "jobs"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"ttl-controller", []rbacv1.PolicyRule{
			allow("list patch update watch", "core", "nodes"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"validatingadmissionpolicy-status-controller", []rbacv1.PolicyRule{
			allow("get list watch", "admissionregistration.k8s.io", "validatingadmissionpolicies"),
			allow("get patch update", "admissionregistration.k8s.io", "validatingadmissionpolicies/status"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
		{"volumeattributesclass-protection-controller", []rbacv1.PolicyRule{
			allow("get list watch", "core", "persistentvolumeclaims"),
			allow("get list watch", "core", "persistentvolumes"),
			allow("get list update watch", "storage.k8s.io", "volumeattributesclasses"),
			allow("create patch update", "core events.k8s.io", "events"),
		}},
	}
}
